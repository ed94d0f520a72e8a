"""However a run ends, what it measured is kept, and resuming it leads to the same tables."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fusion import files, history, journal, locks, plan, report, session
from fusion.runner import RunError
from fusion.session import ResumeError, Watcher

ROOT = Path(__file__).parent.parent
OPERATORS = ("good", "product", "shouting")
# How many random moments a runner is killed at; more of them make a longer, stricter test.
KILLS = int(os.environ.get("FUSION_TEST_KILLS", "4"))


def facts(found):
    """What two runs of the same benchmarks have in common: all but ids and file names."""
    return sorted(
        (row.operator, row.shape, row.dtype, row.latency_ms, row.logical, row.attainment_pct)
        for row in found.rows
    ), sorted((line.operator, line.status, line.measured) for line in found.coverage)


def start(bench, *arguments):
    command = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), *arguments]
    return subprocess.Popen(
        [*command, "--output-dir", str(bench.output)],
        env=bench.around.environ,
        cwd=bench.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_take_signals,
    )


def _take_signals():
    """Undo what a background job or nohup inherits: ignored signals stay ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def children_of(folder):
    """Name the processes that work below a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "cwd").readlink()).startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until_gone(folder):
    deadline = time.monotonic() + 10
    while children_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    return children_of(folder)


def test_killed_runner_leaves_no_child_and_resumes_to_the_same_tables(bench):
    """SIGKILL at any moment costs time alone: no operator is measured twice, no row differs."""
    undisturbed = facts(bench.run(*OPERATORS))
    chance = random.Random(20)
    for _ in range(KILLS):
        before = set(history.journals(bench.output))
        runner = start(bench, "run", "--ops", ",".join(OPERATORS))
        time.sleep(chance.uniform(0.2, 1.6))
        runner.kill()
        runner.communicate()
        started = set(history.journals(bench.output)) - before
        if not started:
            continue
        (kept,) = started
        assert wait_until_gone(kept.folder / "ops") == []
        done = {name: kept.outcome(name).read_bytes() for name in OPERATORS if kept.is_done(name)}
        resumed = session.resume(kept, bench.around.environ)
        assert facts(resumed) == undisturbed
        for name, ending in done.items():
            assert kept.outcome(name).read_bytes() == ending


def test_killed_repeats_are_resumed_to_every_sample(bench):
    """SIGKILL in the middle of the repeats costs none that was done."""
    chance = random.Random(21)
    for _ in range(KILLS):
        before = set(history.journals(bench.output))
        runner = start(bench, "run", "--ops", "good,shouting", "--repeat", "3")
        time.sleep(chance.uniform(0.4, 4.0))
        runner.kill()
        runner.communicate()
        started = set(history.journals(bench.output)) - before
        if not started:
            continue
        (kept,) = started
        assert wait_until_gone(kept.folder / "ops") == []
        done = {path: path.read_bytes() for path in kept.folder.glob("ops/**/outcome.json")}
        resumed = session.resume(kept, bench.around.environ)
        assert {(row.operator, row.count) for row in resumed.rows} == {("good", 3), ("shouting", 3)}
        assert [line.status for line in resumed.coverage] == ["PASSED", "PASSED"]
        assert {path: path.read_bytes() for path in done} == done


def test_killed_child_is_a_crash_and_the_run_goes_on(bench):
    """SIGKILL to a child, as from a full memory, keeps its cases and the other operators."""
    source = bench.suite / "benchmark" / "test_bad.py"
    source.write_text(source.read_text().replace("signal.SIGSEGV", "signal.SIGKILL"))
    found = bench.run("crashing", "good")
    states = {line.operator: (line.status, line.measured) for line in found.coverage}
    assert states == {"crashing": ("PARTIAL", 2), "good": ("PASSED", 2)}
    assert "SIGKILL while running case 2" in found.coverage[0].reason


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_cleanly_and_tells_how_to_resume(bench, number):
    """A signal ends the children, exits 130 and prints the command that goes on."""
    runner = start(bench, "run", "--ops", "good,hanging")
    try:
        wait_for(lambda: any(bench.output.glob("runs/*/ops/hanging/attempt-0/cases.jsonl")))
        runner.send_signal(number)
        output, _ = runner.communicate(timeout=30)
    finally:
        runner.kill()
    (kept,) = history.journals(bench.output)
    assert runner.returncode == 130
    assert f"inv resume {kept.folder.name}" in output
    assert wait_until_gone(kept.folder / "ops") == []
    states = {line.operator: line.status for line in report.load(kept).coverage}
    assert states == {"good": "PASSED", "hanging": "NOT_RUN"}
    assert (kept.folder / "coverage.csv").is_file()


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the run did not come this far"
        time.sleep(0.05)


def test_full_disk_at_any_write_stops_the_run_and_loses_nothing(bench, monkeypatch):
    """Wherever the disk is full, the run stops with a reason and resumes to the same tables."""
    undisturbed = facts(bench.run("good", "product"))
    fsync, steps = os.fsync, 0
    while True:
        planned = bench.plan("good", "product")
        countdown = iter(range(steps))

        def full(descriptor, countdown=countdown):
            if next(countdown, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        try:
            session.execute(planned, bench.around.environ)
            break
        except (RunError, OSError, files.FileError):
            pass
        finally:
            monkeypatch.setattr(os, "fsync", fsync)
        if planned.journal.plan.is_file():
            assert facts(session.resume(planned.journal, bench.around.environ)) == undisturbed
        steps += 1
    assert steps > 9


def test_child_that_cannot_write_stops_the_run_without_an_outcome(bench):
    """A child without room for its cases ends the run, and the operator is left to resume."""
    planned = bench.plan("good")
    folder = planned.journal.attempt("good", 0).folder
    real = planned.journal.folder

    def fill(event):
        (folder / "cases.jsonl").symlink_to("/dev/full")

    with pytest.raises(RunError, match="could not be written"):
        session.execute(planned, bench.around.environ, Watcher(event=_before_child(folder, fill)))
    assert not planned.journal.is_done("good")
    assert len(session.resume(journal.Journal(real), bench.around.environ).rows) == 2


def _before_child(folder, act):
    def listen(event):
        if event.kind == "started" and event.attempt.folder == folder:
            folder.parent.mkdir(parents=True, exist_ok=True)
            # The runner makes the folder itself; the case file is put in its place by a hook.
            original = Path.mkdir

            def mkdir(path, *args, **kwargs):
                original(path, *args, **kwargs)
                if path == folder:
                    Path.mkdir = original
                    act(event)

            Path.mkdir = mkdir

    return listen


def test_finished_run_is_not_resumed(bench):
    """Resuming a finished run measures nothing and gives its report."""
    finished = bench.run("good", "skipping")
    bench.events.clear()
    assert session.resume(finished.journal, bench.around.environ, bench.watcher) == finished
    assert bench.events == []


def test_failed_operators_run_again_on_request(bench):
    """--failed runs what did not pass, keeps the earlier attempts, and prefers the better one."""
    finished = bench.run("good", "failing", "failing_later")
    source = bench.suite / "benchmark" / "test_bad.py"
    source.write_text(
        source.read_text().replace('raise RuntimeError("out of registers")', "return 1.0")
    )
    again = session.resume(finished.journal, bench.around.environ, bench.watcher, failed=True)
    assert {line.operator: line.status for line in again.coverage} == dict.fromkeys(
        ("good", "failing", "failing_later"), "PASSED"
    )
    assert again.journal.attempt("failing", 0).output.is_file()
    assert again.journal.attempt("failing", 1).output.is_file()
    assert not again.journal.attempt("good", 1).folder.exists()


def test_worse_second_try_does_not_replace_a_partial_result(bench):
    """What was measured stays when running again measures less."""
    finished = bench.run("failing_later")
    source = bench.suite / "benchmark" / "test_bad.py"
    source.write_text(source.read_text().replace("[(2.0, 1.0), (2.0, fail)]", "[(2.0, fail)] * 2"))
    again = session.resume(finished.journal, bench.around.environ, failed=True)
    (line,) = again.coverage
    assert (line.status, line.measured, line.attempts) == ("PARTIAL", 1, 2)


def interrupted(bench):
    finished = bench.run("good", "product")
    finished.journal.outcome("product").unlink()
    return finished.journal


def test_resume_uses_the_saved_plan(bench):
    """Settings that changed since do not matter: the plan is the one that was saved."""
    kept = interrupted(bench)
    (bench.root / ".env").write_text("FUSION_WARMUP=77\n")
    assert {row.warmup for row in session.resume(kept, bench.around.environ).rows} == {5}


def test_resume_refuses_changed_formulas_and_force_records_it(bench):
    """A difference is named and refused; --force goes on and keeps it in the manifest."""
    kept = interrupted(bench)
    path = bench.suite / "benchmark" / "fusion_metrics_formulas.yaml"
    path.write_text(path.read_text() + "# changed\n")
    with pytest.raises(ResumeError, match=r"formulas: \w+ then, \w+ now"):
        session.resume(kept, bench.around.environ)
    session.resume(kept, bench.around.environ, force=True)
    manifest = json.loads((kept.folder / "run.json").read_text())
    assert manifest["resumed"][0]["differences"][0].startswith("formulas: ")


def test_newest_unfinished_run_is_found(bench):
    """Without a name the run to resume is the newest one with operators left."""
    kept = interrupted(bench)
    bench.run("good")
    assert history.newest_unfinished(bench.output) == kept
    session.resume(kept, bench.around.environ)
    assert history.newest_unfinished(bench.output) is None


def test_plan_of_a_newer_version_is_refused(bench):
    """A reader that meets a newer format says so."""
    kept = interrupted(bench)
    saved = files.read_json(kept.plan)
    files.write_json(kept.plan, {**saved, "format": plan.PLAN_FORMAT + 1})
    with pytest.raises(files.FileError, match="newer version"):
        session.resume(kept, bench.around.environ)


def test_runs_are_listed_with_their_states(bench):
    """A run is interrupted, finished or published, with its operators counted."""
    kept = interrupted(bench)
    session.publish(bench.run("good", "failing"))
    published, left = history.entries(bench.output)
    assert (published.state, published.passed, published.other, published.left) == (
        "published",
        1,
        1,
        0,
    )
    assert (left.run_id, left.state, left.left) == (kept.folder.name, "interrupted", 1)


def test_copied_run_is_read_anywhere(bench, tmp_path):
    """A run's folder gives its report wherever it is copied to."""
    finished = bench.run("good")
    copied = tmp_path / "elsewhere"
    finished.journal.folder.rename(copied)
    again = report.load(history.find(bench.output, str(copied)))
    assert facts(again) == facts(finished)


def test_second_runner_of_a_node_is_told_for_whom_it_would_wait(bench):
    """A held node refuses with user, process and run, or is waited for."""
    planned = bench.plan("good")
    nodes = session._node_ids(planned)
    with locks.nodes(nodes, "the-first-run", True, print, lambda: None):
        second = start(bench, "run", "--ops", "good", "--no-wait")
        output, _ = second.communicate(timeout=30)
    assert second.returncode == 2
    assert re.search(r"process \d+\), run the-first-run, since", output)
    assert not bench.output.exists()
    session.execute(planned, bench.around.environ, wait=False)


def test_lock_of_a_dead_process_is_no_lock(bench):
    """A killed holder frees the node at once."""
    runner = start(bench, "run", "--ops", "hanging")
    wait_for(lambda: any(bench.output.glob("runs/*/ops/hanging/attempt-0/cases.jsonl")))
    runner.kill()
    runner.communicate()
    with locks.nodes([0], "mine", False, print, lambda: None):
        pass


def test_running_run_says_so_and_is_not_resumed(bench):
    """A run at work is listed as running and cannot be resumed beside it."""
    runner = start(bench, "run", "--ops", "hanging")
    try:
        wait_for(lambda: any(bench.output.glob("runs/*/ops/hanging/attempt-0/cases.jsonl")))
        (entry,) = history.entries(bench.output)
        assert entry.state == "running"
    finally:
        runner.terminate()
        runner.communicate(timeout=30)

"""Whole runs of a small suite whose benchmarks pass, fail, crash, hang and mislead."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from fusion import report, rows, session, terminal
from fusion.errors import Refusal


def coverage(finished, operator):
    return next(line for line in finished.coverage if line.operator == operator)


@pytest.mark.parametrize(
    ("operator", "status", "measured", "reason"),
    [
        ("good", "PASSED", 2, ""),
        ("product", "PASSED", 1, ""),
        ("crashing", "PARTIAL", 2, "killed by SIGSEGV while running case 2"),
        ("crashing_at_once", "CRASHED", 0, "killed by SIGSEGV while running case 0"),
        ("failing", "FAILED", 0, "out of registers"),
        ("failing_later", "PARTIAL", 1, "out of registers"),
        ("hanging", "PARTIAL", 1, "timed out after 4 s while running case 1"),
        ("not_a_number", "PARTIAL", 1, "the latency is nan ms"),
        ("zero", "PARTIAL", 1, "division by zero"),
        ("shouting", "PASSED", 1, ""),
        ("skipping", "SKIPPED", 0, "needs a package that is absent"),
        ("expected_failure", "FAILED", 0, "expected to fail: known upstream"),
        ("nothing", "NO_DATA", 0, "recorded no case"),
        ("lacking", "FAILED", 0, "No module named 'a_package_that_nobody_has'"),
        ("uncountable", "PARTIAL", 1, "expected input 'z' at position 5"),
        ("absent", "MISSING", 0, "no benchmark"),
        ("turned_off", "DISABLED", 0, "depends on data"),
    ],
)
def test_status_comes_from_cases_and_tests(everything, operator, status, measured, reason):
    """Each ending has its status, its reason and the cases that were measured."""
    line = coverage(everything[1], operator)
    assert (line.status, line.measured) == (status, measured)
    assert reason in line.reason


def test_every_operator_of_the_catalogue_is_covered_once(everything):
    """Coverage lists all operators, each once, whatever became of them."""
    bench, finished = everything
    text = (bench.suite / "benchmark" / "fusion_metrics_formulas.yaml").read_text()
    known = [line.strip().rstrip(":").split(":")[0] for line in text.splitlines()]
    listed = [line.operator for line in finished.coverage]
    assert len(listed) == len(set(listed)) == 18
    assert set(listed) <= set(known)


def test_exit_code_is_one_when_an_operator_that_could_run_did_not_pass(everything, bench):
    """Skipped, disabled and missing operators are no failure; others are."""
    assert everything[1].exit_code == 1
    assert bench.run("good", "skipping").exit_code == 0


def test_rows_hold_the_formulas_value_and_the_arithmetic(everything):
    """A row is bytes over time against the target, and the same for FLOP."""
    finished = everything[1]
    first = next(row for row in finished.rows if row.operator == "good")
    assert (first.shape, first.dtype, first.pipeline) == ("[[4,4],[4,4]]", "float32", "SVE")
    assert first.logical == 2 * 16 * 4
    assert first.achieved == pytest.approx(128 / 1e-3 / 1e9)
    assert first.target == 30.72
    assert first.expected_latency_ms == pytest.approx(128 / 30.72e9 * 1e3)
    assert first.attainment_pct == pytest.approx(100 * first.achieved / first.target)
    assert first.latency_ratio == pytest.approx(first.target / first.achieved)
    assert (first.speedup, first.baseline_rate) == (2.0, pytest.approx(128 / 2e-3 / 1e9))
    product = next(row for row in finished.rows if row.category == "compute")
    assert product.logical == 2 * 64**3
    assert product.target == pytest.approx(2.52631579)
    assert product.achieved == pytest.approx(2 * 64**3 / 1e-3 / 1e12)


def test_measurement_without_a_count_is_kept_with_empty_cells(everything):
    """A formula that fails costs the attainment of its case, not the measurement."""
    row = next(row for row in everything[1].rows if row.operator == "uncountable")
    assert (row.latency_ms, row.logical, row.attainment_pct) == (1.0, None, None)
    assert "expected input 'z'" in row.note


def test_unusable_latencies_are_errors_and_no_rows(everything):
    """NaN, infinite and zero latencies never become numbers in a table."""
    finished = everything[1]
    latencies = [row.latency_ms for row in finished.rows if row.operator == "not_a_number"]
    assert latencies == [1.0]
    messages = [
        error["message"] for error in finished.errors if error["operator"] == "not_a_number"
    ]
    assert messages == ["the latency is nan ms", "the latency is inf ms"]


def test_logical_values_are_in_the_suites_own_record(everything):
    """The record that the suite writes carries the value that the formula gave."""
    finished = everything[1]
    attempt = finished.plan.journal.attempt("good", 0)
    lines = [line for line in attempt.record.read_text().splitlines() if "op_name" in line]
    results = json.loads(lines[0].partition(" ")[2])["result"]
    assert [result["logical_bytes"] for result in results] == [128, 512]
    assert "logical_flops" in results[0]


def test_output_is_kept_as_the_bytes_that_were_written(everything):
    """Output that is not UTF-8 neither crashes the runner nor is it changed."""
    output = everything[1].plan.journal.attempt("shouting", 0).output
    assert b"\xff\xfe not UTF-8\n" in output.read_bytes()


def test_files_are_plain_csv_and_strict_json(everything):
    """Tables have a header and rows; the manifest parses without NaN."""
    folder = everything[1].plan.journal.folder
    for name, category in (
        ("fused_compute_tflops.csv", "compute"),
        ("fused_non_compute_bandwidth.csv", "memory"),
    ):
        with (folder / name).open(newline="") as stream:
            lines = list(csv.reader(stream))
        assert tuple(lines[0]) == rows.columns(category)
        assert len(lines) == 1 + len(everything[1].of(category))

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    manifest = json.loads((folder / "run.json").read_text(), parse_constant=refuse)
    assert manifest["settings"]["timeout"] == {"value": 4, "source": "command line"}
    assert len(manifest["coverage"]) == 18


def test_report_is_built_from_the_folder_alone(everything):
    """Reading the run's folder again gives the report that the run gave."""
    finished = everything[1]
    assert report.load(finished.plan.journal) == finished


def test_damaged_files_of_one_operator_cost_the_others_nothing(bench):
    """A torn outcome or case file leaves every other row in place."""
    finished = bench.run("good", "product", "shouting")
    kept = finished.plan.journal
    kept.outcome("product").write_text("{")
    cases = kept.attempt("shouting", 0).cases
    cases.write_bytes(cases.read_bytes() + b'{"event": "case", "ca')
    again = report.load(kept)
    assert coverage(again, "product").status == "NO_DATA"
    assert [row.operator for row in again.rows] == ["good", "good", "shouting"]


def test_older_layout_is_attached_as_well(older_bench):
    """The plugin works on FlagGems' modules of before 2026-04-28."""
    finished = older_bench.run("good")
    assert coverage(finished, "good").status == "PASSED"
    assert [row.logical for row in finished.rows] == [128, 512]
    assert finished.plan.time_unit == "counts"
    record = finished.plan.journal.attempt("good", 0).record.read_text()
    assert '"logical_bytes": 512' in record


def test_fallback_tries_bfloat16_then_the_benchmarks_own(bench):
    """An explicit dtype that fails falls back, visibly, and each attempt keeps its files."""
    finished = bench.run("only_float16", dtypes="float32")
    tried = [(event.kind, event.dtype) for event in bench.events]
    assert tried == [
        ("started", "float32"),
        ("fallback", "bfloat16"),
        ("started", "bfloat16"),
        ("fallback", None),
        ("started", None),
        ("ended", None),
    ]
    (row,) = finished.rows
    assert row.dtype == "float16"
    assert "dtype fallback: float32 failed, ran float16" in row.note
    outputs = [finished.plan.journal.attempt("only_float16", index).output for index in range(3)]
    assert b"can't be supported" in outputs[0].read_bytes()
    assert all(output.is_file() for output in outputs)


@pytest.mark.parametrize("operator", ["skipping", "lacking", "failing_later"])
def test_what_is_no_dtype_failure_is_not_retried(bench, operator):
    """A skip, a missing package and a partial result run once."""
    bench.run(operator, dtypes="float32")
    assert [event.kind for event in bench.events] == ["started", "ended"]


def test_implicit_dtype_has_no_fallback(bench):
    """Without --dtypes a failure is the operator's own."""
    bench.run("only_float16")
    assert [event.kind for event in bench.events] == ["started", "ended"]


def test_pair_that_appears_after_a_fallback_has_an_empty_target(bench):
    """A row whose dtype has no target says so and loses nothing else."""
    source = bench.suite / "benchmark" / "test_product.py"
    source.write_text(source.read_text().replace("[(2.0, 1.0)]", '[(2.0, 1.0)], ("float16",)'))
    (row,) = bench.run("product", dtypes="float32").rows
    assert (row.dtype, row.target, row.attainment_pct) == ("float16", None, None)
    assert row.logical == 2 * 64**3
    assert "no target for SME float16" in row.note


def test_run_is_the_plan(bench):
    """What a child was started with is exactly what the plan says."""
    planned = bench.plan("good")
    expected = planned.first_command(planned.jobs[0], bench.around.environ)
    session.execute(planned, bench.around.environ)
    ran = json.loads(planned.journal.attempt("good", 0).command.read_text())
    assert tuple(ran["argv"]) == expected.argv
    assert ran["environment"] == dict(expected.environment)
    assert ran["shell"] == expected.shell()


def test_printed_command_works_in_a_shell(bench):
    """Pasting the command of a dry run gives the same cases."""
    planned = bench.plan("good")
    command = planned.first_command(planned.jobs[0], bench.around.environ)
    assert not bench.output.exists()
    subprocess.run(["sh", "-c", command.shell()], env=bench.around.environ, check=False)
    cases = planned.journal.attempt("good", 0).cases.read_text()
    assert '"logical_bytes": 512' in cases


def test_long_paths_do_not_limit_the_record(tmp_path, make_bench):
    """A record is written however long the arguments are that the suite would name it after."""
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    finished = make_bench(deep).run("good")
    assert finished.plan.journal.attempt("good", 0).record.is_file()


def test_callers_environment_reaches_the_child(bench, monkeypatch):
    """PYTHONPATH and PYTEST_ADDOPTS of the caller are kept, a foreign pipeline is not."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--durations=1")
    monkeypatch.setenv("PYTHONPATH", str(bench.root / "mine"))
    monkeypatch.setenv("TRITON_SHARED_FORCE_SME_PIPELINE", "1")
    planned = bench.plan("good")
    command = planned.first_command(planned.jobs[0], bench.around.environ)
    assert command.environment["PYTEST_ADDOPTS"].startswith(
        "--durations=1 -s -p fusion_metrics_plugin"
    )
    assert str(bench.root / "mine") in command.environment["PYTHONPATH"].split(":")
    child = command.applied(bench.around.environ)
    assert "TRITON_SHARED_FORCE_SME_PIPELINE" not in child
    assert child["TRITON_SHARED_FORCE_SVE_PIPELINE"] == "1"


def test_timeout_leaves_no_process_of_the_group(bench):
    """A child that ignores SIGTERM and its own children are gone after the time limit."""
    source = bench.suite / "benchmark" / "test_bad.py"
    source.write_text(
        source.read_text().replace(
            "def hang():\n",
            "def hang():\n"
            "    import subprocess\n"
            "    sleeper = subprocess.Popen(['sleep', '60'])\n"
            "    open('sleeper', 'w').write(str(sleeper.pid))\n",
        )
    )
    finished = bench.run("hanging", timeout="3")
    folder = finished.plan.journal.attempt("hanging", 0).folder
    assert _is_gone(int((folder / "sleeper").read_text()))


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    os.kill(pid, 9)
    return False


@pytest.mark.parametrize(
    ("operators", "complaint"),
    [
        (("god",), "did you mean good"),
        (("turned_off",), "disabled: its count depends on data"),
        (("absent",), "has no benchmark"),
    ],
)
def test_operator_that_cannot_run_is_refused_by_name(bench, operators, complaint):
    """Naming an unknown, disabled or missing operator is refused before anything runs."""
    with pytest.raises(Refusal, match=complaint):
        bench.run(*operators)
    assert not bench.output.exists()


def test_alias_runs_the_operator(bench):
    """An operator answers to its aliases and is run once."""
    planned = bench.plan("good_too", "product")
    assert [job.operator for job in planned.jobs] == ["product"]


def test_pair_without_target_is_refused_with_the_pairs_and_the_override(bench):
    """A compute operator with a dtype that has no target does not start."""
    with pytest.raises(Refusal, match=r"SME float32.*--target-tflops"):
        bench.plan("product", dtypes="float16")
    planned = bench.plan("product", dtypes="float16", target_tflops="3")
    assert planned.jobs[0].target == 3.0


def test_unknown_pipeline_is_refused(bench):
    """A pipeline that the targets file lacks is refused with those it has."""
    with pytest.raises(Refusal, match="SME, SVE"):
        bench.plan("good", pipeline="NEON")


def test_pipeline_of_another_targets_file_needs_no_code(bench):
    """A machine is described by a targets file alone: pipeline, environment, targets."""
    path = bench.root / "targets.yaml"
    path.write_text(
        "version: 1\n"
        "pipelines:\n"
        "  GPU: {environment: {MY_SWITCH: 'on'}, peak_tflops: {float32: 60}, gbps: 4800}\n"
    )
    finished = bench.run("good", "product", targets=str(path))
    assert {row.pipeline for row in finished.rows} == {"GPU"}
    assert {row.category: row.target for row in finished.rows} == {"memory": 4800, "compute": 60}


def test_rate_above_the_peak_is_suspect_in_row_coverage_and_summary(bench):
    """A rate that the hardware cannot reach is flagged wherever it is shown."""
    path = bench.root / "targets.yaml"
    path.write_text(
        "version: 1\n"
        "memory: {gbps: 1.0e-6, peak_gbps: 2.0e-4}\n"
        "pipelines: {CPU: {peak_tflops: {float32: 1.0e-6}}}\n"
    )
    planned = bench.plan("good", "product", targets=str(path))
    planned.machine.pop("last_level_cache_bytes")
    finished = session.execute(planned, bench.around.environ)
    suspects = [(row.operator, row.logical) for row in finished.rows if row.is_suspect]
    assert sorted(suspects) == [("good", 512), ("product", 2 * 64**3)]
    assert {line.operator: line.suspect for line in finished.coverage} == {"good": 1, "product": 1}
    assert "2 SUSPECT rows" in terminal.summary(finished)


def test_small_working_set_is_marked_as_cache_resident(everything):
    """The rate of bytes that fit the last-level cache is not that of DRAM, and says so."""
    row = next(row for row in everything[1].rows if row.operator == "good")
    cache = everything[1].plan.machine["last_level_cache_bytes"]
    assert ("cache-resident" in row.note) == (cache is not None)


def test_unwritable_output_is_refused(bench):
    """An output folder that cannot be made is refused before the plan is made."""
    blocked = bench.root / "file"
    blocked.write_text("")
    with pytest.raises(Refusal, match="--output-dir"):
        bench.plan("good", output_dir=str(blocked / "out"))


def test_two_runs_keep_each_their_own_folder(bench):
    """A second run overwrites nothing of the first."""
    first, second = bench.run("good"), bench.run("good")
    assert first.plan.run_id != second.plan.run_id
    assert report.load(first.plan.journal) == first

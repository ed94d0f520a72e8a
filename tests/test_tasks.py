"""The command line as people type it: tasks, refusals, exit codes."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Bench

ROOT = Path(__file__).parent.parent


def invoke(bench, *arguments, root=ROOT, **environ):
    return subprocess.run(
        [sys.executable, "-m", "invoke", "--search-root", str(root), *map(str, arguments)],
        env={**bench.around.environ, **environ},
        cwd=bench.root,
        capture_output=True,
        text=True,
        check=False,
    )


def files(folder):
    """List a folder with the state of each file, to see what was touched."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A bench with one run of chosen operators and one of all, as the command line made them."""
    bench = Bench(tmp_path_factory.mktemp("tasks"), "current")
    bad = (bench.suite / "benchmark" / "test_bad.py").read_text()
    keep = bad.replace("time.sleep(60)", 'raise RuntimeError("no time")')
    (bench.suite / "benchmark" / "test_bad.py").write_text(keep)
    chosen = invoke(bench, "run", "--ops", "good,skipping", "--ops", "good_too")
    everything = invoke(bench, "all", "--output-dir", str(bench.root / "all"))
    return bench, chosen, everything


def test_run_prints_table_summary_and_where_the_result_is(measured):
    """`inv run` ends with the table, one line of summary and the run's folder, exit code 0."""
    bench, done, _ = measured
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Suite: FlagGems unknown revision at {bench.suite}")
    assert any(re.match(r"[-\d]+ [:\d]+ good: started with float32", line) for line in lines)
    assert any(line.startswith("operator ") and "attained %" in line for line in lines)
    assert any(
        re.match(r"FlagGems .*: 2 PASSED, 1 SKIPPED(, \d unstable rows)?; 3 cases; geometric", x)
        for x in lines
    )
    folder = Path(re.search(r"^Result: (.*)$", done.stdout, re.M)[1])
    assert folder.parent == bench.root / "logs" / "fusion_metrics" / "runs"
    assert (folder / "coverage.csv").is_file()
    assert "Published" not in done.stdout


def test_run_publishes_nothing(measured):
    """A run of chosen operators leaves the published set alone."""
    output = measured[0].root / "logs" / "fusion_metrics"
    assert [path.name for path in output.iterdir()] == ["runs"]


def test_all_publishes_and_exits_one_where_something_failed(measured):
    """`inv all` lists every operator, publishes the four files and tells failures by its code."""
    bench, _, done = measured
    assert done.returncode == 1
    assert f"Published: {bench.root / 'all'}" in done.stdout
    with (bench.root / "all" / "coverage.csv").open(newline="") as stream:
        coverage = {line["operator"]: line["status"] for line in csv.DictReader(stream)}
    assert len(coverage) == 18
    assert (coverage["good"], coverage["absent"]) == ("PASSED", "MISSING")
    assert (coverage["turned_off"], coverage["failing"]) == ("DISABLED", "FAILED")
    assert "refused" not in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_runs_and_show_tell_a_run_again(measured):
    """`inv runs` lists the run, and `inv show ID` prints its tables as the run did."""
    bench, chosen, _ = measured
    listed = invoke(bench, "runs").stdout.splitlines()[-1].split()
    assert listed[-4:] == ["2", "1", "0", "finished"]
    shown = invoke(bench, "show", listed[0])
    assert shown.returncode == 0
    table = chosen.stdout[chosen.stdout.index("\noperator ") : chosen.stdout.index("\nResult:")]
    assert table.strip() in shown.stdout


def test_finished_run_is_not_resumed_and_an_unknown_one_refused(measured):
    """Resuming with nothing left says so and exits 0; an unknown id exits 2."""
    bench = measured[0]
    done = invoke(bench, "resume")
    assert (done.returncode, "Every run is finished" in done.stdout) == (0, True)
    run_id = invoke(bench, "runs").stdout.splitlines()[-1].split()[0]
    done = invoke(bench, "resume", run_id)
    assert (done.returncode, f"Run {run_id} is finished." in done.stdout) == (0, True)
    done = invoke(bench, "resume", run_id[:-1] + "x")
    assert done.returncode == 2
    assert f"did you mean {run_id}?" in done.stderr


def test_merge_shows_its_effect_before_it_has_one(measured, tmp_path):
    """`inv merge --dry-run` writes nothing; without it the set is published; twice is once."""
    bench = measured[0]
    shutil.copytree(bench.root / "logs" / "fusion_metrics", tmp_path / "out")
    (run,) = (tmp_path / "out" / "runs").iterdir()
    before = files(tmp_path)
    merge = ("merge", run.name, "--output-dir", str(tmp_path / "out"))
    shown = invoke(bench, *merge, "--dry-run")
    assert "the first set" in shown.stdout
    assert "nothing was written" in shown.stdout
    assert files(tmp_path) == before
    assert f"Published: {tmp_path / 'out'}" in invoke(bench, *merge).stdout
    assert (tmp_path / "out" / "run.json").is_file()
    again = invoke(bench, *merge)
    assert (again.returncode, "Nothing changes" in again.stdout) == (0, True)


def test_dry_run_touches_nothing_and_prints_the_whole_plan(bench):
    """`--dry-run` leaves the disk as it was and prints what a run would do."""
    before = files(bench.root)
    given = ("--dry-run", "--warmup", "3", "--output-dir", str(bench.output))
    done = invoke(bench, "all", *given, FUSION_ITER="7")
    assert done.returncode == 0, done.stderr
    assert files(bench.root) == before
    assert re.search(r"^  SHA-256 [0-9a-f]{64}$", done.stdout, re.M)
    assert re.search(r"^warmup +3 milliseconds +command line$", done.stdout, re.M)
    assert re.search(r"^iter +7 milliseconds +environment$", done.stdout, re.M)
    assert re.search(r"^turned_off +DISABLED +its count depends on data", done.stdout, re.M)
    assert re.search(r"^Bindings, \d+ threads each, ", done.stdout, re.M)
    assert re.search(r"^  0: NUMA node (-|\d+), CPUs [-,\d]+$", done.stdout, re.M)
    assert len(re.findall(r"^mkdir -p \S+ && cd \S+ && env ", done.stdout, re.M)) == 16


def test_command_of_a_dry_run_can_be_pasted(bench):
    """The text of a dry run, given to a shell, measures the case."""
    done = invoke(bench, "run", "--ops", "good", "--dry-run", "--output-dir", str(bench.output))
    command = done.stdout[done.stdout.index("mkdir -p") : done.stdout.index("\n\nThis was a dry")]
    assert not bench.output.exists()
    subprocess.run(
        ["sh", "-c", command], env=bench.around.environ, capture_output=True, check=False
    )
    (cases,) = bench.output.glob("runs/*/ops/good/attempt-0/cases.jsonl")
    assert '"logical_bytes": 512' in cases.read_text()


def test_list_of_tasks_reads_well(bench):
    """`inv --list` has every task with its aliases and one line of help."""
    done = invoke(bench, "--list")
    tasks = {
        "all (a)",
        "audit",
        "calibrate",
        "check",
        "compare",
        "doctor",
        "export-formulas (export)",
        "list (ls)",
        "merge",
        "report",
        "resume",
        "run (r)",
        "runs",
        "show",
        "test",
    }
    lines = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", done.stdout, re.M))
    assert set(lines) == tasks
    assert all(re.match(r"[A-Z][a-z]+ \w+", text) for text in lines.values()), lines


def test_help_of_run_has_every_option(bench):
    """`inv --help run` explains each option that a run takes."""
    text = invoke(bench, "--help", "run").stdout
    options = (
        "ops dry-run output-dir omp-threads jobs numa-nodes dtypes warmup iter mode level timeout "
        "shape-file target-tflops target-gbps pipeline flaggems python"
    )
    for option in options.split(" "):
        assert re.search(rf"^  --{option}\b", text, re.M), option
    assert "-o STRING" not in text


def test_list_shows_every_operator(bench):
    """`inv list` tells category, state, default dtype and benchmark of each operator."""
    done = invoke(bench, "list")
    assert done.returncode == 0
    assert re.search(r"^good +memory +enabled +float32 +benchmark/test_good.py$", done.stdout, re.M)
    assert re.search(r"^absent +memory +enabled +float32 +not found$", done.stdout, re.M)
    assert re.search(r"^turned_off +memory +disabled: its count", done.stdout, re.M)
    assert invoke(bench, "ls").stdout == done.stdout


@pytest.mark.parametrize(
    "arguments", [("export-formulas", "out.md"), ("export", "--file", "out.md")]
)
def test_export_writes_the_table(bench, arguments):
    """`inv export-formulas OUT.md` writes FlagGems' own formulas as Markdown."""
    done = invoke(bench, *arguments)
    assert done.returncode == 0, done.stderr
    assert str(bench.root / "out.md") in done.stdout
    lines = (bench.root / "out.md").read_text().splitlines()
    assert lines[0] == "| Product function | Category | Formula | Status |"
    assert "| product | compute | `2 * x.numel() * y.shape[0]` | enabled |" in lines
    assert lines[-1].startswith("| turned_off | memory |")
    assert lines[-1].endswith("| disabled: its count depends on data that the benchmark hides |")


def test_export_needs_neither_flaggems_nor_numa_nor_pytest(bench, tmp_path):
    """The export runs where pytest cannot be imported and no path leads anywhere."""
    (tmp_path / "block" / "pytest").mkdir(parents=True)
    (tmp_path / "block" / "pytest" / "__init__.py").write_text("raise ImportError('blocked')")
    environ = {"PYTHONPATH": str(tmp_path / "block"), "TRITON_REPO_DIR": "", "PATH": ""}
    done = invoke(bench, "export-formulas", "out.md", **environ)
    assert done.returncode == 0, done.stderr
    assert "| silu_and_mul | memory |" in (bench.root / "out.md").read_text()


@pytest.mark.parametrize("arguments", [(), ("nowhere/out.md",), (".",)])
def test_export_without_a_file_to_write_is_refused(bench, arguments):
    """The file must be given and writable; a file that is there is not torn."""
    before = files(bench.root)
    done = invoke(bench, "export-formulas", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("refused: ")
    assert files(bench.root) == before


def test_export_of_a_broken_file_leaves_the_old_export(bench):
    """A formula file that is refused costs no earlier export."""
    (bench.root / "out.md").write_text("old")
    formulas = bench.suite / "benchmark" / "fusion_metrics_formulas.yaml"
    formulas.write_text(formulas.read_text() + "  good: {}\n")
    done = invoke(bench, "export-formulas", "out.md")
    assert (done.returncode, "duplicate key 'good'" in done.stderr) == (2, True)
    assert (bench.root / "out.md").read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("run", "--ops: expected at least one operator"),
        ("run --ops ,", "--ops: expected at least one operator"),
        ("run --ops god", "did you mean good"),
        ("run --ops turned_off", "is disabled: its count depends on data"),
        ("run --ops absent", "has no benchmark"),
        ("run --ops good --omp-threads 64", "--omp-threads: expected a whole number from 1 to 32"),
        ("run --ops good --numa-nodes 0,0", "each node once"),
        ("run --ops good --numa-nodes 77", "--numa-nodes"),
        ("run --ops good --mode fast", "--mode: expected one of"),
        ("run --ops good --mode cudagraph", "--mode cudagraph: expected a mode of FlagGems"),
        ("run --ops good --level all", "--level: expected one of"),
        ("run --ops good --dtypes float33", "--dtypes: expected exactly one dtype"),
        ("run --ops good --dtypes float32 --dtypes float16", "exactly one dtype"),
        ("run --ops good --pipeline NEON", "which declares SME, SVE"),
        ("run --ops product --dtypes float16", "SME float32"),
        ("run --ops good --target-gbps -1", "--target-gbps: expected a positive number"),
        ("run --ops good --target-tflops nan", "--target-tflops: expected a positive number"),
        ("run --ops good --shape-file nowhere.yaml", "existing shape file"),
        ("run --ops good --flaggems nowhere", "--flaggems nowhere: expected a FlagGems checkout"),
        ("run --ops good --python nopython", "--python nopython"),
        ("all --iter 0", "--iter: expected a whole number"),
        ("show", "show: expected a run, found none"),
        ("show a b", "show: expected one run, found a, b"),
        ("merge", "merge: expected a run, found none"),
        ("merge nothing", "nothing: expected a run of"),
        ("resume a b", "resume: expected one run"),
        ("audit --cases nowhere.jsonl", "nowhere.jsonl"),
    ],
)
def test_bad_input_is_refused_with_code_2_and_nothing_written(bench, arguments, told):
    """What cannot be done as asked is refused before anything starts, in one message."""
    before = files(bench.root)
    done = invoke(bench, *arguments.split(), FUSION_OUTPUT_DIR=str(bench.output))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("refused: ")
    assert told in done.stderr
    assert files(bench.root) == before


@pytest.mark.parametrize("variable", ["FUSION_MODE=fast", "FUSION_OUTPUT_DIR=out"])
def test_bad_variable_is_refused_by_its_name(bench, variable):
    """A bad value of the environment names the variable."""
    name, _, value = variable.partition("=")
    done = invoke(bench, "run", "--ops", "good", **{name: value})
    assert done.returncode == 2
    assert f"environment variable {name}: expected" in done.stderr


def test_output_below_a_file_is_refused(bench):
    """An output folder that cannot be made is refused before anything runs."""
    (bench.root / "file").write_text("")
    done = invoke(bench, "run", "--ops", "good", "--output-dir", "file/out")
    assert (done.returncode, "--output-dir" in done.stderr) == (2, True)


def test_lines_of_the_projects_dotenv_are_its_defaults(bench, tmp_path):
    """The .env of the project counts wherever it is called from, and one there does not."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("fusion", "formulas"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tasks.py", ".env"):
        shutil.copy(ROOT / name, project / name)
    (bench.root / ".env").write_text("FUSION_ITER=9\n")
    with (project / ".env").open("a") as stream:
        stream.write("\nFUSION_WARMUP=77\n")
    given = ("run", "--ops", "good", "--dry-run")
    environ = {"PYTHONPATH": str(project)}
    done = invoke(bench, *given, root=project, **environ)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^warmup +77 milliseconds +\.env$", done.stdout, re.M)
    assert re.search(r"^iter +5 milliseconds +default$", done.stdout, re.M)
    with (project / ".env").open("a") as stream:
        stream.write("FUSION_WARMUP=78\n")
    done = invoke(bench, *given, root=project, **environ)
    lines = (project / ".env").read_text().count("\n")
    assert done.returncode == 2
    assert f"{project / '.env'}:{lines}: FUSION_WARMUP is already set" in done.stderr


def test_output_goes_to_agent_dir(bench):
    """$AGENT_DIR/logs/fusion_metrics is where runs go unless told otherwise."""
    agent = str(bench.root / "agent")
    done = invoke(bench, "run", "--ops", "good", "--dry-run", AGENT_DIR=agent)
    assert f"Run: {agent}/logs/fusion_metrics/runs/" in done.stdout


def test_without_flaggems_the_embedded_suite_is_announced_first(bench):
    """The first line says that the embedded suite runs, and why."""
    done = invoke(bench, "run", "--ops", "silu_and_mul", "--dry-run", TRITON_REPO_DIR="")
    assert re.match(r"Suite: embedded suite .*; no FlagGems: neither", done.stdout)


def test_test_task_passes_the_choice_and_the_exit_code_on(bench):
    """`inv test --select` runs those tests, and its exit code is theirs."""
    none = invoke(bench, "test", "--select", "no_test_has_this_name")
    assert none.returncode == 1
    assert "deselected" in none.stdout


def test_two_runs_are_compared(measured):
    """Single measurements can tell nothing, and a regression that is told fails on request."""
    bench, done, _ = measured
    run = re.search(r"^Result: (.*)$", done.stdout, re.M)[1]
    same = invoke(bench, "compare", run, run, "--fail-on", "slower")
    assert same.returncode == 0, same.stderr
    assert "can't tell" in same.stdout
    slow = bench.root / "slow.csv"
    with Path(run, "fused_non_compute_bandwidth.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    for name, factor in (("quick", 1.0), ("slow", 2.0)):
        samples = [factor * (1 + step / 1000) for step in range(9)]
        told = [{**line, "latency_ms": samples[4], "latencies_ms": samples} for line in lines]
        with (bench.root / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0]))
            writer.writeheader()
            writer.writerows(told)
    quick = bench.root / "quick.csv"
    assert invoke(bench, "compare", quick, slow).returncode == 0
    failed = invoke(bench, "compare", quick, slow, "--fail-on", "slower", "--format", "json")
    assert failed.returncode == 1
    verdicts = {row["verdict"] for row in json.loads(failed.stdout)["rows"]}
    assert verdicts == {"slower"}
    assert "--fail-on slower: failed, 2 slower" in failed.stderr
    both = invoke(bench, "compare", quick, slow, "--fail-on", "slower", "--fail-on", "missing")
    assert both.returncode == 1
    assert invoke(bench, "compare", slow, quick, "--fail-on", "slower").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("compare", "a"), "expected two results"),
        (("compare", "nothing", "there"), "nothing"),
        (("compare", "a", "b", "--threshold", "-5%"), "--threshold"),
        (("compare", "a", "b", "--fail-on", "slow"), "slower"),
        (("compare", "a", "b", "--fail-on", ""), "found none"),
        (("compare", "a", "b", "--fail-on"), "--fail-on: expected a value"),
        (("compare", "a", "b", "--format", "xml"), "--format"),
        (("show", "latest", "--format", "yaml"), "--format"),
        (("show", "nothing"), "nothing"),
        (("report", "nothing"), "nothing"),
        (("run", "--ops", "good", "--repeat", "0"), "--repeat"),
        (("calibrate", "--omp-threads", "9999"), "--omp-threads"),
        (("doctor", "--format", "xml"), "--format"),
    ],
)
def test_bad_requests_about_results_are_refused(measured, arguments, told):
    """Each is exit code 2, with what was expected."""
    done = invoke(measured[0], *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "refused: " in done.stderr


def test_report_of_the_published_set(measured):
    """`inv report` without a name takes the published set and writes beside it."""
    bench = measured[0]
    done = invoke(bench, "report", "--output-dir", bench.root / "all")
    assert done.returncode == 0, done.stderr
    page = bench.root / "all" / "report" / "report.html"
    assert str(page) in done.stdout
    assert page.stat().st_size > 10_000


def test_doctor_needs_nothing(measured):
    """`inv doctor` ends well whatever it finds, for people and for programs."""
    assert "pinning" in invoke(measured[0], "doctor").stdout
    found = json.loads(invoke(measured[0], "doctor", "--format", "json").stdout)
    assert {"topic", "value", "warning", "remedy"} == set(found["findings"][0])


def test_results_are_shown_in_other_forms(measured):
    """`inv show` writes what other tools read."""
    bench, done, _ = measured
    run = re.search(r"^Result: (.*)$", done.stdout, re.M)[1]
    assert json.loads(invoke(bench, "show", run, "--format", "json").stdout)["rows"]
    assert "| operator" in invoke(bench, "show", run, "--format", "md").stdout
    assert invoke(bench, "show", run, "--format", "csv").stdout.startswith("category,operator")
    assert "<testsuites" in invoke(bench, "show", run, "--format", "junit").stdout

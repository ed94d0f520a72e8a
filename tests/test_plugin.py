"""The plugin attaches to a suite it does not know, and keeps each case as soon as it is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fusion import command, contract

CONTRACT = (contract.CONFIG_VARIABLE, contract.KEY_VARIABLE)
TEST = """
import pytest

from . import base


@pytest.mark.good
def test_good():
    base.Benchmark({arguments}).run()
"""
CASE = '"good", [(4, 4)], [(2.0, 1.0)]'


class Child:
    """A child of a small suite as it is started by hand, and what it left."""

    def __init__(self, bench):
        self.suite = bench.suite
        self.folder = bench.root / "child"
        self.folder.mkdir()
        kept = {key: value for key, value in bench.around.environ.items() if key not in CONTRACT}
        path = [str(command.PLUGIN_FOLDER), str(bench.suite)]
        self.environ = {**kept, "PYTHONPATH": ":".join(path)}
        self.formulas = str(bench.suite / "benchmark" / "fusion_metrics_formulas.yaml")

    def benchmark(self, arguments):
        (self.suite / "benchmark" / "test_good.py").write_text(TEST.format(arguments=arguments))

    def run(self, operator="good", *more, **environ):
        given = {contract.CONFIG_VARIABLE: self.formulas, contract.KEY_VARIABLE: operator}
        chosen = {key: value for key, value in {**given, **environ}.items() if value is not None}
        return subprocess.run(
            [
                sys.executable,
                *("-m", "pytest", "-s", "-p", command.PLUGIN_NAME, "-p", "no:cacheprovider"),
                *(str(self.suite / "benchmark" / "test_good.py"), "-m", "good", *more),
            ],
            cwd=self.folder,
            env={**self.environ, **chosen},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def events(self):
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def text(self):
        path = self.folder / contract.CASE_FILE
        return path.read_text() if path.exists() else ""

    def cases(self):
        """Return the last line about each case."""
        found = {event["case"]: event for event in self.events if event["event"] == "case"}
        return list(found.values())

    def record(self):
        (path,) = self.folder.glob("result_*.log")
        lines = [line for line in path.read_text().splitlines() if "op_name" in line]
        return [case for line in lines for case in json.loads(line.partition(" ")[2])["result"]]


@pytest.fixture
def child(bench):
    return Child(bench)


def test_events_follow_the_child_in_order(child):
    """Session, start of a test, each case as it starts and is measured, outcome, end."""
    child.benchmark('"good", [(4, 4), (8, 8)], [(2.0, 1.0), (3.0, 1.5)], ("float32",)')
    child.run()
    told = [(e["event"], e.get("state"), e.get("case")) for e in child.events]
    assert told[:2] == [("session", None, None), ("test_started", None, None)]
    assert [line for line in told if line[0] == "case"] == [
        ("case", "started", 0),
        ("case", "measured", 0),
        ("case", "measured", 0),
        ("case", "started", 1),
        ("case", "measured", 1),
        ("case", "measured", 1),
    ]
    assert [line[0] for line in told[8:]] == ["test", "test", "end"]
    assert child.events[-1]["pinning"] == child.events[0]["pinning"]
    assert child.events[0]["format"] == contract.CASE_FORMAT
    assert child.events[0]["versions"]["numpy"]
    assert child.events[0]["attached"] == ["benchmark.consts", "benchmark.base"]


def test_case_has_the_count_before_it_is_measured(child):
    """The formula is evaluated on the actual arguments, before the timing starts."""
    child.run()
    first = next(event for event in child.events if event["event"] == "case")
    assert (first["state"], first["logical_bytes"]) == ("started", 64)
    assert (first["operator"], first["op_name"], first["dtype"]) == ("good", "good", "float16")
    assert first["shape"] == [[4, 4], [4, 4]]
    assert "latency_ms" not in first


def test_case_has_latencies_and_speedup_by_their_units(child):
    """What the suite measured is kept under names with units."""
    child.run()
    case = child.cases()[0]
    assert (case["latency_ms"], case["baseline_latency_ms"], case["speedup"]) == (1.0, 2.0, 2.0)


def test_record_of_the_suite_has_the_same_counts(child):
    """FlagGems' own record carries what the case file has."""
    child.run()
    assert [case["logical_bytes"] for case in child.record()] == [64, 256, 128, 512]
    assert [case["logical_bytes"] for case in child.cases()] == [64, 256, 128, 512]
    assert {case["logical_flops"] for case in child.record()} == {None}


@pytest.mark.parametrize(
    ("latency", "kept"),
    [('float("nan")', "nan"), ('float("inf")', "inf"), ('-float("inf")', "-inf")],
)
def test_number_that_json_lacks_becomes_its_name(child, latency, kept):
    """The case file stays strict JSON whatever the suite measures."""
    child.benchmark(f'"good", [(4, 4)], [(2.0, {latency})]')
    child.run()
    assert child.cases()[0]["latency_ms"] == kept

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    for line in child.text.splitlines():
        json.loads(line, parse_constant=refuse)


def test_failed_case_has_the_suites_message(child):
    """A case whose measurement fails says so in the suite's own words."""
    child.benchmark('"good", [(4, 4)], [(2.0, lambda: 1 / 0)]')
    child.run()
    (case,) = child.cases()
    assert (case["state"], case["error"]) == ("failed", "division by zero")
    assert case["logical_bytes"] == 64
    outcome = next(event for event in child.events if event["event"] == "test")
    assert (outcome["phase"], outcome["outcome"]) == ("call", "failed")
    assert "division by zero" in outcome["message"]


def test_failing_formula_costs_the_count_alone(child):
    """A formula without a value leaves its message, and the measurement is kept."""
    child.benchmark('"unheard_of", [(4, 4)], [(2.0, 1.0)]')
    child.run("uncountable")
    case = child.cases()[0]
    assert "expected input 'z' at position 5" in case["formula_error"]
    assert case["latency_ms"] == 1.0
    assert "logical_bytes" not in case
    assert child.record()[0]["logical_bytes"] is None


def test_record_that_names_another_operator_takes_its_formula(child):
    """A benchmark that records an operator of the catalogue is counted by that one's formula."""
    child.benchmark('"good_too", [(4, 4)], [(2.0, 1.0)]')
    child.run()
    case = child.cases()[0]
    assert (case["operator"], case["logical_flops"]) == ("product", 2 * 16 * 4)
    assert child.record()[0]["logical_flops"] == 2 * 16 * 4


def test_crash_keeps_what_was_known(child):
    """Every line is with the kernel before the next step, so that a crash loses none."""
    child.benchmark('"good", [(4, 4)] * 2, [(2.0, 1.0), (2.0, lambda: __import__("os").abort())]')
    child.run()
    assert [case["state"] for case in child.cases()] == ["measured", "started"]
    assert "end" not in {event["event"] for event in child.events}


def test_suite_with_logical_fields_of_its_own_is_left_as_it_is(child):
    """A suite that evaluates the formulas itself keeps its values; they are read, never set."""
    constants = child.suite / "benchmark" / "consts.py"
    constants.write_text(
        constants.read_text().replace(
            "    error_msg: Optional[str] = None\n",
            "    error_msg: Optional[str] = None\n    logical_bytes: Optional[int] = None\n",
        )
    )
    base = child.suite / "benchmark" / "base.py"
    base.write_text(
        base.read_text().replace(
            "                    metric.speedup =",
            "                    if index: metric.logical_bytes = 7\n"
            "                    metric.speedup =",
        )
    )
    child.run()
    assert [case["logical_bytes"] for case in child.record()] == [None, 7, None, 7]
    assert "logical_flops" not in child.record()[0]
    assert [case["logical_bytes"] for case in child.cases()] == [64, 7, 128, 7]


def test_without_the_contract_the_plugin_does_nothing(child):
    """Loaded without formulas and operator, the suite runs as if the plugin were not there."""
    environ = {contract.CONFIG_VARIABLE: None, contract.KEY_VARIABLE: None}
    done = child.run(**environ)
    assert "1 passed" in done.stdout
    assert child.text == ""
    assert "logical_bytes" not in child.record()[0]


@pytest.mark.parametrize("missing", CONTRACT)
@pytest.mark.parametrize("value", [None, ""])
def test_half_a_contract_is_a_usage_error(child, missing, value):
    """Formulas without operator, or the reverse, is refused before a test runs."""
    done = child.run(**{missing: value})
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"set both {CONTRACT[0]} and {CONTRACT[1]}, or neither" in done.stderr
    assert child.text == ""


def test_arguments_are_evaluated_once_a_case(child):
    """Nothing is recorded twice, whatever the benchmark object is used for."""
    child.benchmark(f"{CASE}).run()\n    base.Benchmark({CASE}")
    child.run()
    assert [case["case"] for case in child.cases()] == [0, 1, 2, 3]
    assert [case["logical_bytes"] for case in child.cases()] == [64, 128, 64, 128]


def test_skip_and_collection_failure_are_kept_with_their_reasons(child):
    """A test that is skipped and a file that cannot be imported say why."""
    path = child.suite / "benchmark" / "test_good.py"
    path.write_text(
        'import pytest\n\n\n@pytest.mark.good\ndef test_x():\n    pytest.skip("no GPU")\n'
    )
    child.run()
    test = next(event for event in child.events if event["event"] == "test")
    assert (test["outcome"], test["message"]) == ("skipped", "Skipped: no GPU")
    (child.folder / contract.CASE_FILE).unlink()
    path.write_text("import nothing_of_that_name\n")
    child.run()
    (failed,) = [event for event in child.events if event["event"] == "collect"]
    assert failed["outcome"] == "failed"
    assert "No module named 'nothing_of_that_name'" in failed["message"]


def test_case_file_that_cannot_be_written_ends_the_child(child):
    """Nothing is measured that could not be kept."""
    (child.folder / contract.CASE_FILE).symlink_to("/dev/full")
    done = child.run()
    assert done.returncode == contract.UNWRITABLE
    assert "cases.jsonl could not be written" in done.stderr


def test_plugin_alone_imports_nothing_of_the_runner(child):
    """The child's Python needs pytest and PyYAML, and none of what the runner needs."""
    code = f"import sys, {command.PLUGIN_NAME}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=child.folder,
        env={**os.environ, "PYTHONPATH": str(command.PLUGIN_FOLDER)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert {"fusion", "pytest", "yaml"} <= loaded
    assert not loaded & {"invoke", "filelock", "numpy", "rich", "tabulate", "torch"}

"""Other tools read the results as strict JSON, one CSV, Markdown, or JUnit XML."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import pytest

from fusion import export, lookup
from fusion.results import TABLES, Results


@pytest.fixture(scope="module")
def read(everything):
    return lookup.of_run(everything[1].journal)


def test_json_is_strict_and_typed(read):
    """Numbers are numbers, unknowns are null, and no bare NaN occurs."""
    value = json.loads(export.json_text(read), parse_constant=pytest.fail)
    assert len(value["rows"]) == len(read.rows)
    row = value["rows"][0]
    assert isinstance(row["latency_ms"], float)
    assert isinstance(row["omp_threads"], int)
    assert isinstance(row["latencies_ms"], list)
    assert {line["status"] for line in value["coverage"]} >= {"PASSED", "SKIPPED", "CRASHED"}
    assert value["manifest"]["formulas_sha256"]


def test_numbers_that_json_lacks_are_null(read):
    """A NaN in somebody's CSV does not reach the JSON."""
    key, cells = next(iter(read.rows.items()))
    odd = Results(
        {key: {**cells, "latency_ms": "nan", "speedup": "inf", "target_gbps": "x"}}, {}, {}
    )
    row = json.loads(export.json_text(odd), parse_constant=pytest.fail)["rows"][0]
    assert row["latency_ms"] is row["speedup"] is row["target_gbps"] is None


def test_csv_has_both_tables_in_one(read):
    """Every row is there once with its category, at full precision."""
    lines = list(csv.DictReader(io.StringIO(export.csv_text(read))))
    assert {line["category"] for line in lines} == {"compute", "memory"}
    assert [line["latency_ms"] for line in lines] == [c["latency_ms"] for c in read.rows.values()]


def test_markdown_has_the_measured_ceiling_beside_the_target(read):
    """Both percentages stand under their names, and no empty columns where nobody calibrated."""
    assert "ceiling" not in export.markdown(read)
    rows = {
        key: {**cells, "ceiling_gbps": "40", "ceiling_pct": "5"} for key, cells in read.rows.items()
    }
    text = export.markdown(Results(rows, {}, {}))
    assert "| target_gbps   | attainment_pct   | ceiling_gbps   | ceiling_pct   | note" in text


def test_markdown_has_tables_and_coverage(read):
    """Pipes in texts do not break the tables."""
    reasons = {name: {**line, "reason": "a | b\nc"} for name, line in read.coverage.items()}
    text = export.markdown(Results(read.rows, reasons, read.manifest))
    assert "## Compute operators" in text
    assert "## Memory operators" in text
    assert "a \\| b c" in text
    for block in text.split("\n\n"):
        if block.startswith("|"):
            counts = {line.replace("\\|", "").count("|") for line in block.splitlines()}
            assert len(counts) == 1


def test_junit_has_a_case_for_every_operator(read):
    """Statuses become failures, errors and skips, with the reason as the message."""
    root = ElementTree.fromstring(export.junit(read))
    suite = root.find("testsuite")
    cases = {case.get("name"): case for case in suite}
    assert set(cases) == set(read.coverage)
    assert int(suite.get("tests")) == len(cases)
    assert len(cases["good"].findall("*")) == 1
    assert "needs a package" in cases["skipping"].find("skipped").get("message")
    assert "out of registers" in cases["failing"].find("failure").get("message")
    assert cases["crashing_at_once"].find("error").get("type") == "CRASHED"
    assert cases["turned_off"].find("skipped") is not None
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(name)) == len(suite.findall(f"testcase/{tag}")) > 0
        assert root.get(name) == suite.get(name)


def test_junit_holds_no_character_that_xml_lacks(read):
    """A terminal's escape codes in a message do not spoil the file."""
    coverage = {n: {**line, "reason": "\x1b[31mred\x00"} for n, line in read.coverage.items()}
    text = export.junit(Results(read.rows, coverage, read.manifest))
    assert "red" in ElementTree.fromstring(text).find("testsuite/testcase/failure").get("message")


def test_table_of_few_columns_is_written_in_every_form():
    """Somebody's own CSV has no more than a row needs."""
    cells = {"operator": "a", "dtype": "d", "shape": "s", "latency_ms": "nan"}
    bare = Results({(next(iter(TABLES)), "a", "d", "s", 0): cells}, {}, {})
    assert "| a" in export.written(bare, "md")
    assert json.loads(export.written(bare, "json"))["rows"][0]["latency_ms"] is None
    assert "timestamp" not in export.written(bare, "junit")
    assert export.written(bare, "csv").count("\n") == 2


def test_run_leaves_its_coverage_as_junit(everything):
    """A CI finds the file in the run's folder without asking for it."""
    found = everything[1]
    root = ElementTree.parse(found.journal.junit).getroot()
    assert len(root.findall("testsuite/testcase")) == len(found.coverage)

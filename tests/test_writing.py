"""A comparison reads the same in every form: differences first, and nothing dropped."""

from __future__ import annotations

import csv
import io
import json
import statistics

import pytest

from fusion.comparison import verdict, writing
from fusion.results import Results

TABLE = "fused_non_compute_bandwidth.csv"


def row(center, count=9, **others):
    latencies = [center * (1 + index / 1000) for index in range(count)]
    return {
        "latency_ms": repr(statistics.median(latencies)),
        "latency_mad_ms": "0.002",
        "latencies_ms": json.dumps(latencies),
        **others,
    }


def results(rows, coverage=None, **manifest):
    keyed = {(TABLE, name, "float32", "[[8, 8]]", 0): cells for name, cells in rows.items()}
    return Results(keyed, coverage or {}, manifest)


@pytest.fixture
def found():
    """One row of every verdict, a crashed operator, and another host."""
    a = {"slow": row(1), "fast": row(2), "equal": row(3), "once": row(1, 1), "gone": row(7)}
    b = {"slow": row(2), "fast": row(1), "equal": row(3), "once": row(2, 1), "new": row(8)}
    crashed = {"gone": {"status": "CRASHED", "reason": "signal 11"}}
    return verdict.compare(
        results(a, machine={"host": "left"}), results(b, crashed, machine={"host": "right"})
    )


@pytest.fixture
def nothing():
    return verdict.compare(results({}), results({}))


def sections(text):
    """Split a text form at its empty lines."""
    return text.rstrip("\n").split("\n\n")


def test_text_begins_with_the_differences(found):
    """What differs around the measurements is read before any row."""
    first, rows, *_ = sections(writing.text(found))
    assert first.splitlines()[0] == "Differences:"
    assert first.splitlines()[-1].split() == ["machine", "host", "left", "right"]
    assert rows.startswith("Rows (")


def test_text_shows_rows_in_order_and_counts_the_same(found):
    """Slower, faster and can't tell are shown in that order; the same are counted, not shown."""
    rows = sections(writing.text(found))[1]
    assert "1 that are the same are left out, --all shows them" in rows
    lines = [line for line in rows.splitlines() if "float32" in line]
    assert [line.split()[0] for line in lines] == ["slower", "faster", "can't"]
    assert lines[0].split()[5:8] == ["1.004", "2.008", "2.000"]
    assert "1 and 1 samples: too few" in lines[2]


def test_text_shows_the_same_where_asked(found):
    """With show_all the rows that are the same stand last."""
    rows = sections(writing.text(found, show_all=True))[1]
    assert rows.splitlines()[-1].startswith("same") and "left out" not in rows


def test_text_lists_what_one_side_lacks_with_the_reason(found):
    """Both lists and the operators without rows name operator, status and reason."""
    parts = {part.splitlines()[0]: part for part in sections(writing.text(found))}
    assert "gone" in parts["Only in A:"] and "CRASHED: signal 11" in parts["Only in A:"]
    assert "new" in parts["Only in B:"]
    assert "not in its results" in parts["Operators without rows in A or B:"]


def test_text_ends_with_one_line_that_sums_up(found):
    """The last line has every count, the mean, the direction of ratios and what to do next."""
    last = sections(writing.text(found))[-1]
    assert "\n" not in last
    assert last == writing.summary(found)
    assert last.startswith("1 slower, 1 faster, 1 can't tell, 1 same, 1 only in A, 1 only in B; ")
    assert "over 1, B is slower" in last
    assert last.endswith("to tell one changed row among 4: measure both with --repeat 5")


def test_every_form_says_which_way_a_ratio_goes(found):
    """A ratio without its direction would be read the wrong way half the time."""
    for form in ("text", "md", "json"):
        assert writing.RATIO in writing.written(found, form)
    assert "ratio_b_over_a" in writing.written(found, "csv").splitlines()[0]


def test_absent_manifest_is_said_first():
    """A side whose machine is unknown is named before anything else."""
    a, b = results({"x": row(1)}), results({"x": row(1)}, machine={})
    text = writing.text(verdict.compare(a, b))
    assert text.startswith("A has no manifest: its machine and settings are unknown.\n")


def test_agreement_is_said_too():
    """Where nothing differs the text says so instead of leaving it open."""
    a = results({"x": row(1)}, machine={"host": "one"})
    assert writing.text(verdict.compare(a, a)).startswith("Machine, suite, ")


def test_markdown_keeps_every_cell_in_its_column():
    """Bars, newlines and angle brackets of a cell do not break its table."""
    rows = {"a|b\nc<d": row(1)}
    found = verdict.compare(results(rows), results({}))
    lines = [line for line in writing.markdown(found).splitlines() if "c&lt;d" in line]
    assert len(lines) == 3
    assert all("a\\|b c&lt;d" in line for line in lines)
    unescaped = [line.replace("\\|", "").count("|") for line in lines]
    assert unescaped == [9, 6, 4]


def test_markdown_has_tables_with_headings(found):
    """Each table has a heading and a rule that says how its columns align."""
    text = writing.markdown(found)
    assert text.startswith("### Differences\n\n| differs")
    assert text.count("### ") == 6
    rule = sections(text)[3].splitlines()[1]
    assert (rule.count(":--"), rule.count("--:")) == (6, 4)


def test_csv_has_every_row_once(found):
    """Matched and one-sided rows are there with verdict, p, medians, deviations and counts."""
    rows = list(csv.DictReader(io.StringIO(writing.csv_text(found))))
    by_name = {line["operator"]: line for line in rows}
    assert len(rows) == len(by_name) == 6
    slow = by_name["slow"]
    assert (slow["verdict"], slow["a_count"], slow["b_latency_mad_ms"]) == ("slower", "9", "0.002")
    assert float(slow["ratio_b_over_a"]) == pytest.approx(2)
    assert 0 < float(slow["p"]) <= float(slow["p_adjusted"]) < 0.05
    gone = by_name["gone"]
    assert (gone["verdict"], gone["b_latency_ms"], gone["b_count"]) == ("only in A", "", "0")
    assert (gone["shape"], gone["note"]) == ("[[8, 8]]", "B: CRASHED: signal 11")


def test_json_has_everything(found):
    """Differences, rows, operators, overall and both one-sided lists stand in one strict object."""
    data = json.loads(writing.json_text(found), parse_constant=pytest.fail)
    assert data["format"] == 1
    assert data["differences"] == [{"name": "machine host", "a": "left", "b": "right"}]
    assert [line["verdict"] for line in data["rows"]] == ["slower", "faster", "can't tell", "same"]
    assert len(data["rows"][0]["a_latencies_ms"]) == 9
    assert [line["operator"] for line in data["only_in_a"]] == ["gone"]
    assert [line["operator"] for line in data["only_in_b"]] == ["new"]
    assert data["overall"]["counts"]["slower"] == 1
    assert len(data["operators"]) == 6
    assert data["operators_without_rows"][0]["b"] == "CRASHED: signal 11"


def test_json_of_damaged_latencies_is_strict():
    """NaN and infinity of a table never reach the JSON."""
    broken = {"latency_ms": "nan", "latency_mad_ms": "inf"}
    tiny, huge = {"latency_ms": "5e-324"}, {"latency_ms": "1e308"}
    a, b = results({"x": broken, "y": tiny}), results({"x": row(1), "y": huge})
    text = writing.json_text(verdict.compare(a, b))
    data = json.loads(text, parse_constant=pytest.fail)
    assert [line["ratio_b_over_a"] for line in data["rows"]] == [None, None]


@pytest.mark.parametrize("form", writing.FORMATS)
def test_nothing_is_written_too(nothing, form):
    """Two empty sets have a form each, without empty tables."""
    text = writing.written(nothing, form)
    assert text.endswith("\n") and "Rows (" not in text


@pytest.mark.parametrize("form", writing.FORMATS)
def test_long_shapes_are_shortened_for_people_only(form):
    """Text and Markdown shorten a shape, CSV and JSON keep it."""
    shape = json.dumps([list(range(40))])
    long = Results({(TABLE, "x", "bool", shape, 1): row(1)}, {}, {})
    text = writing.written(verdict.compare(long, results({})), form)
    assert (shape in text) == (form in ("csv", "json"))
    assert ("…" in text) == (form in ("text", "md"))


def test_lines_beside_a_csv_have_what_its_rows_have_no_place_for(found):
    """Differences come first, then operators without rows, means, and the line that sums up."""
    lines = writing.lines_beside_csv(found)
    assert lines[0] == "machine host: A left, B right"
    assert "without rows: gone: A 1 row, B CRASHED: signal 11" in lines
    assert "geometric mean of slow: 2.000" in lines
    assert lines[-1] == writing.summary(found)


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_operator_that_ended_differently_is_in_every_form(form):
    """A repeat that crashed is named with its reason."""
    coverage = [{"x": {"status": "PASSED"}}, {"x": {"status": "PARTIAL", "reason": "signal 9"}}]
    found = verdict.compare(*(results({"x": row(1)}, each) for each in coverage))
    assert "PARTIAL: signal 9" in writing.written(found, form)
    assert "ended differently: x: A 1 row, B 1 row, PARTIAL: signal 9" in writing.lines_beside_csv(
        found
    )


@pytest.mark.parametrize("form", ["text", "md"])
def test_operators_that_neither_side_could_run_are_shown_on_request(form):
    """Seventy operators without a benchmark do not bury the one that crashed."""
    sides = []
    for status in ("SKIPPED", "CRASHED"):
        lines = {"absent": {"status": "MISSING"}, "x": {"status": status}}
        lines |= {"off": {"status": "DISABLED"}} if sides else {}
        sides.append(results({"y": row(1)}, lines))
    found = verdict.compare(*sides)
    few, every = (writing.written(found, form, show_all) for show_all in (False, True))
    assert "MISSING" not in few and "MISSING" in every
    assert "CRASHED" in few and "(2 that neither could run are left out, --all shows them)" in few
    assert not any("MISSING" in line for line in writing.lines_beside_csv(found))
    assert "MISSING" in writing.written(found, "json")

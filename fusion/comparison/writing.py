"""Write a comparison for people and for programs: text, Markdown, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tabulate import tabulate

from fusion.comparison import verdict
from fusion.comparison.verdict import Comparison, Measurement, Row, States, Summary
from fusion.text import number, shortened

# History of the JSON form, newest last:
# 1  first.
JSON_FORMAT = 1
RATIO = "ratio = B's latency / A's: over 1, B is slower"
COLUMNS = (
    "table",
    "operator",
    "dtype",
    "shape",
    "ordinal",
    "verdict",
    "ratio_b_over_a",
    "p",
    "p_adjusted",
    "a_latency_ms",
    "b_latency_ms",
    "a_latency_mad_ms",
    "b_latency_mad_ms",
    "a_count",
    "b_count",
    "note",
)
FORMATS = ("text", "md", "csv", "json")
_SHAPE_WIDTH, _NOTE_WIDTH, _VALUE_WIDTH = 44, 70, 70
_ROW_HEADS = ("operator", "dtype", "shape")
_NUMBERS = {"A ms", "B ms", "B/A", "p corrected", "latency ms", *verdict.VERDICTS}
# How a state begins of what was not even tried.
_IDLE = (verdict.ABSENT, "MISSING", "DISABLED")
_NOTHING = Measurement(None, None, (), "")
_Table = tuple[Sequence[str], Sequence[Sequence[str]]]
_MATCHED = (verdict.SLOWER, verdict.FASTER, verdict.CANNOT_TELL, verdict.SAME)


def written(comparison: Comparison, form: str, show_all: bool = False) -> str:
    """Write in one of ``FORMATS``; ``show_all`` adds the rows that are the same to a text."""
    if form == "csv":
        return csv_text(comparison)
    if form == "json":
        return json_text(comparison)
    return (markdown if form == "md" else text)(comparison, show_all)


def text(comparison: Comparison, show_all: bool = False) -> str:
    """Write for a terminal: differences first, then the tables, then one line that sums up."""
    tables = [f"{title}:\n{_plain(*table)}" for title, table in _tables(comparison, show_all)]
    return "\n\n".join([*_opening(comparison), *tables, summary(comparison)]) + "\n"


def markdown(comparison: Comparison, show_all: bool = False) -> str:
    """Write the same as Markdown of GitHub."""
    tables = [f"### {title}\n\n{_github(*table)}" for title, table in _tables(comparison, show_all)]
    return "\n\n".join([*_opening(comparison), *tables, summary(comparison)]) + "\n"


def csv_text(comparison: Comparison) -> str:
    """Write every row, matched or not; what differs around them, the caller writes elsewhere."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_values(row) for row in comparison.rows)
    return stream.getvalue()


def json_text(comparison: Comparison) -> str:
    """Write everything as strict JSON."""
    content = {
        "format": JSON_FORMAT,
        "ratio": RATIO,
        "threshold": comparison.threshold,
        "alpha": comparison.alpha,
        "unknown": comparison.unknown,
        "differences": [asdict(item) for item in comparison.differences],
        "rows": [_object(row) for row in comparison.of(*_MATCHED)],
        "operators": [asdict(item) for item in comparison.operators],
        "overall": asdict(comparison.overall),
        "only_in_a": [_object(row) for row in comparison.of(verdict.ONLY_A)],
        "only_in_b": [_object(row) for row in comparison.of(verdict.ONLY_B)],
        "operators_without_rows": [asdict(item) for item in comparison.unmeasured],
        "operators_ended_differently": [asdict(item) for item in comparison.ended],
        "repeats": comparison.repeats,
    }
    return json.dumps(content, allow_nan=False, ensure_ascii=False, default=str) + "\n"


def lines_beside_csv(comparison: Comparison) -> list[str]:
    """Say in a line each what the rows of a CSV have no place for, the differences first."""
    differing = [f"{d.name}: A {_value(d.a)}, B {_value(d.b)}" for d in comparison.differences]
    operators = [
        f"{title}: {item.operator}: A {_value(item.a)}, B {_value(item.b)}"
        for title, items in (
            ("without rows", comparison.unmeasured),
            ("ended differently", comparison.ended),
        )
        for item in items
        if _could_run(item)
    ]
    means = [
        f"geometric mean of {item.name}: {_ratio(item.geometric_mean)}"
        for item in comparison.operators
    ]
    return [*comparison.unknown, *differing, *operators, *means, summary(comparison)]


def summary(comparison: Comparison) -> str:
    """Say in one line how the comparison ended."""
    overall = comparison.overall
    counts = ", ".join(f"{count} {verdict}" for verdict, count in overall.counts.items() if count)
    return (
        f"{counts or 'no rows'}; geometric mean {_ratio(overall.geometric_mean)} ({RATIO}); "
        f"threshold {100 * comparison.threshold:g} %{_advice(comparison)}"
    )


def _advice(comparison: Comparison) -> str:
    if comparison.repeats is None:
        return ""
    compared = sum(row.ratio is not None for row in comparison.rows)
    return (
        f"; samples are too few to tell one changed row among {compared}: "
        f"measure both with --repeat {comparison.repeats}"
    )


def _opening(comparison: Comparison) -> list[str]:
    """Say what is unknown, whether anything differs, and how to read a ratio."""
    agree = not comparison.differences and not comparison.unknown
    same = ["Machine, suite, formulas, targets, settings and versions agree."] if agree else []
    return [*(f"{line}." for line in comparison.unknown), *same]


def _tables(comparison: Comparison, show_all: bool) -> Iterable[tuple[str, _Table]]:
    """Give the tables in order with their titles, without the empty ones."""
    shown = _MATCHED if show_all else _MATCHED[:-1]
    same = comparison.overall.counts[verdict.SAME]
    hidden = f"; {same} that are the same are left out, --all shows them"
    tables = (
        ("Differences", _differences(comparison)),
        (
            f"Rows ({RATIO}{hidden if same and not show_all else ''})",
            _rows(comparison.of(*shown)),
        ),
        (f"Operators (geometric mean; {RATIO})", _operators(comparison.operators)),
        ("Only in A", _one_sided(comparison.of(verdict.ONLY_A))),
        ("Only in B", _one_sided(comparison.of(verdict.ONLY_B))),
        _without_rows(comparison.unmeasured, show_all),
        ("Operators that ended differently", _states(comparison.ended)),
    )
    return (item for item in tables if item[1][1])


def _differences(comparison: Comparison) -> _Table:
    lines = [(item.name, _value(item.a), _value(item.b)) for item in comparison.differences]
    return ("differs", "A", "B"), lines


def _rows(rows: Iterable[Row]) -> _Table:
    heads = ("verdict", *_ROW_HEADS, "A ms", "B ms", "B/A", "p corrected", "samples", "note")
    return heads, [_row(row) for row in rows]


def _row(row: Row) -> Sequence[str]:
    a, b = row.a, row.b
    assert a is not None and b is not None
    return (
        row.verdict,
        *_name(row),
        number(a.latency_ms),
        number(b.latency_ms),
        _ratio(row.ratio),
        number(row.p_adjusted),
        f"{len(a.samples)}, {len(b.samples)}",
        shortened(row.note, _NOTE_WIDTH),
    )


def _name(row: Row) -> Sequence[str]:
    _, operator, dtype, shape, index = row.key
    again = f" (again, {index + 1})" if index else ""
    return operator, dtype or "-", shortened(shape, _SHAPE_WIDTH) + again


def _one_sided(rows: Iterable[Row]) -> _Table:
    lines = []
    for row in rows:
        side = row.a or row.b
        latency = number(side.latency_ms) if side else "-"
        lines.append((*_name(row), latency, shortened(row.note, _NOTE_WIDTH)))
    return (*_ROW_HEADS, "latency ms", "on the other side"), lines


def _operators(operators: Iterable[Summary]) -> _Table:
    lines = [
        (item.name, _ratio(item.geometric_mean), *map(str, item.counts.values()))
        for item in operators
    ]
    return ("operator", "B/A", *verdict.VERDICTS), lines


def _without_rows(operators: Sequence[States], show_all: bool) -> tuple[str, _Table]:
    """Leave out what neither side could run, as the many operators without a benchmark."""
    shown = [item for item in operators if show_all or _could_run(item)]
    idle = len(operators) - len(shown)
    hidden = f" ({idle} that neither could run are left out, --all shows them)" if idle else ""
    return f"Operators without rows in A or B{hidden}", _states(shown)


def _could_run(item: States) -> bool:
    return not all(state.startswith(_IDLE) for state in (item.a, item.b))


def _states(operators: Iterable[States]) -> _Table:
    lines = [
        (item.operator, shortened(item.a, _NOTE_WIDTH), shortened(item.b, _NOTE_WIDTH))
        for item in operators
    ]
    return ("operator", "A", "B"), lines


def _plain(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return tabulate(lines, heads, colalign=_alignment(heads), disable_numparse=True)


def _github(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    cells = [[_escaped(cell) for cell in line] for line in lines]
    return tabulate(cells, heads, "pipe", colalign=_alignment(heads), disable_numparse=True)


def _alignment(heads: Sequence[str]) -> list[str]:
    return ["right" if head in _NUMBERS else "left" for head in heads]


def _escaped(cell: str) -> str:
    """Keep a cell on its line and in its column, and what looks like HTML visible."""
    return " ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;")


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}" if 0.1 <= ratio < 1000 else f"{ratio:.3g}"


def _value(value: Any) -> str:
    if value is None:
        return "-"
    plain = value if isinstance(value, str) else json.dumps(value, default=str)
    return shortened(plain, _VALUE_WIDTH)


def _values(row: Row) -> tuple[Any, ...]:
    a, b = row.a or _NOTHING, row.b or _NOTHING
    return (
        *row.key,
        row.verdict,
        row.ratio,
        row.p,
        row.p_adjusted,
        a.latency_ms,
        b.latency_ms,
        a.mad_ms,
        b.mad_ms,
        len(a.samples),
        len(b.samples),
        row.note,
    )


def _object(row: Row) -> dict[str, Any]:
    named = dict(zip(COLUMNS, _values(row)))
    samples = {
        f"{name}_latencies_ms": side.samples for name, side in (("a", row.a), ("b", row.b)) if side
    }
    return {**named, **samples}

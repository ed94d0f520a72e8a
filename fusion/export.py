"""Write results for other tools: Markdown, strict JSON, one CSV, JUnit XML."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

from tabulate import tabulate

from fusion import rows
from fusion.results import TABLES, Cells, Results

# History of the JSON form's format, newest last:
# 1  rows, coverage, manifest.
JSON_FORMAT = 1
_TEXTS = {"operator", "shape", "dtype", "pipeline", "source", "cpus", "mode", "level", "run_id"}
_TEXTS |= {"note", "category", "status", "reason", "suite", "output"}
_LISTS = {"latencies_ms"}
_SHOWN = (
    "operator",
    "shape",
    "dtype",
    "pipeline",
    "latency_ms",
    "latency_mad_ms",
    "count",
    "speedup",
    "achieved",
    "target",
    "attainment_pct",
    "ceiling",
    "ceiling_pct",
    "note",
)
# Columns that are shown where a row has something to tell there.
_EXTRA = ("ceiling", "ceiling_pct")
# How JUnit names what a status means; others are a failure of what ran.
_SKIPPED = ("SKIPPED", "DISABLED", "MISSING")
_ERRORS = ("CRASHED", "TIMEOUT", "NO_DATA", "NOT_RUN")
# Characters that XML 1.0 cannot hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def written(results: Results, form: str) -> str:
    """Write in one of ``FORMATS``, ending with a newline."""
    return FORMATS[form](results)


def csv_text(results: Results) -> str:
    """Write all rows as one CSV: the category, then every column that either table has."""
    columns = dict.fromkeys(("category", *rows.COMPUTE_COLUMNS, *rows.MEMORY_COLUMNS))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(columns), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(
        {"category": TABLES[key[0]][0], **cells} for key, cells in results.rows.items()
    )
    return stream.getvalue()


def json_text(results: Results) -> str:
    """Write rows and coverage with numbers as numbers and unknowns as null, and the manifest."""
    value = {
        "format": JSON_FORMAT,
        "rows": [
            {"category": TABLES[key[0]][0], **typed(cells)} for key, cells in results.rows.items()
        ],
        "coverage": [typed(line) for line in results.coverage.values()],
        "manifest": results.manifest,
    }
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(results: Results) -> str:
    """Write both tables and the coverage as GitHub's tables, worst attainment first."""
    parts = [f"# {title(results)}"]
    for table, (category, _) in TABLES.items():
        lines = [cells for key, cells in results.rows.items() if key[0] == table]
        if lines:
            parts += [f"## {category.capitalize()} operators", _rows_table(category, lines)]
    if results.coverage:
        parts += ["## Coverage", _coverage_table(results.coverage.values())]
    return "\n\n".join(parts) + "\n"


def junit(results: Results) -> str:
    """Write the coverage as JUnit XML: a test case per operator, in seconds."""
    lines = list(results.coverage.values())
    cases = [_test_case(line) for line in lines]
    counts = {
        name: sum(case.find(tag) is not None for case in cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    seconds = f"{sum(float(line['seconds'] or 0) for line in lines):.3f}"
    facts = {"name": "fusion-metrics", "tests": str(len(lines)), "time": seconds}
    facts |= {name: str(count) for name, count in counts.items()}
    suites = ElementTree.Element("testsuites", facts)
    when = {"timestamp": created} if (created := _created(results)) else {}
    suite = ElementTree.SubElement(suites, "testsuite", {**facts, **when, "name": title(results)})
    suite.extend(cases)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, "unicode", xml_declaration=True) + "\n"


def typed(cells: Mapping[str, str]) -> dict[str, Any]:
    """Give cells the types that their columns have; an empty cell is None."""
    return {column: _value(column, text) for column, text in cells.items()}


def _value(column: str, text: str) -> Any:
    if not text:
        return None if column not in ("note", "reason") else ""
    if column in _TEXTS:
        return text
    if column in _LISTS:
        return json.loads(text)
    return plain_number(text)


def plain_number(text: str) -> float | int | None:
    """Read a number as JSON knows them: None where it is not finite or none at all."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _test_case(line: Cells) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        {
            "classname": f"fusion.{line['category']}",
            "name": line["operator"],
            "time": f"{float(line['seconds'] or 0):.3f}",
        },
    )
    status, reason = line["status"], _xml_text(line["reason"])
    if status != "PASSED":
        tag = "skipped" if status in _SKIPPED else "error" if status in _ERRORS else "failure"
        facts = {"message": f"{status}: {reason}"}
        told = ElementTree.SubElement(
            case, tag, facts if tag == "skipped" else {**facts, "type": status}
        )
        told.text = f"output: {_xml_text(line['output'])}" if line["output"] else None
    out = ElementTree.SubElement(case, "system-out")
    out.text = (
        f"{status}: {line['measured']} of {line['cases']} cases measured; run {line['run_id']}"
    )
    return case


def _rows_table(category: str, lines: Iterable[Cells]) -> str:
    unit = "tflops" if category == "compute" else "gbps"
    lines = list(lines)
    named = {name: f"{name}_{unit}" for name in ("achieved", "target", "ceiling")}
    columns = [
        name
        for column in _SHOWN
        if (name := named.get(column, column))
        and (column not in _EXTRA or any(cells.get(name) for cells in lines))
    ]
    return tabulate(
        [[_cell(cells.get(column, ""), column) for column in columns] for cells in ordered(lines)],
        headers=columns,
        tablefmt="github",
        disable_numparse=True,
    )


def ordered(lines: Iterable[Cells]) -> list[Cells]:
    """Order rows by attainment, the worst first and the unknown last."""
    known = [(plain_number(cells.get("attainment_pct") or ""), cells) for cells in lines]
    return [cells for _, cells in sorted(known, key=lambda pair: (pair[0] is None, pair[0] or 0.0))]


def _coverage_table(lines: Iterable[Cells]) -> str:
    columns = ("operator", "category", "status", "measured", "cases", "repeats", "reason")
    return tabulate(
        [[_cell(line.get(column, ""), column) for column in columns] for line in lines],
        headers=columns,
        tablefmt="github",
        disable_numparse=True,
    )


def _cell(text: str, column: str) -> str:
    number = None if column in _TEXTS else plain_number(text)
    if number is not None:
        return f"{number:.6g}"
    return " ".join(text.replace("|", "\\|").split())


def title(results: Results) -> str:
    """Name results by suite and runs."""
    runs = ", ".join(results.manifest.get("runs", {})) or "a table"
    return " ".join(filter(None, ("Fusion Metrics:", results.manifest.get("suite"), runs)))


def _created(results: Results) -> str:
    # JUnit's time has neither offset nor fraction.
    return str(results.manifest.get("created", ""))[:19]


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


FORMATS: Mapping[str, Callable[[Results], str]] = {
    "md": markdown,
    "json": json_text,
    "csv": csv_text,
    "junit": junit,
}

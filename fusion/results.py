"""Read results back: the four files of a run or of the published set, parsed."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fusion import files, report
from fusion import rows as tables
from fusion.journal import COMPUTE_TABLE, COVERAGE_TABLE, MANIFEST, MEMORY_TABLE

TABLES = {
    COMPUTE_TABLE: ("compute", tables.COMPUTE_COLUMNS),
    MEMORY_TABLE: ("memory", tables.MEMORY_COLUMNS),
}
Cells = dict[str, str]
# Table, operator, dtype, shape, and which of several rows that agree in these.
Key = tuple[str, str, str, str, int]
# The default, 128 KiB, is less than all samples of a row of some thousand repeats.
csv.field_size_limit(2**24)


@dataclass(frozen=True)
class Results:
    """Hold one set of results as it was written. Rows are keyed in the order of their tables."""

    rows: Mapping[Key, Cells]
    coverage: Mapping[str, Cells]
    manifest: Mapping[str, Any]


def parse(texts: Mapping[str, str]) -> Results:
    """Read a set from the texts of its four files.

    Raise FileError for a newer format, ValueError, KeyError or csv.Error for a damaged file.
    """
    manifest = json.loads(texts[MANIFEST])
    if not isinstance(manifest, dict):
        raise ValueError(f"{MANIFEST}: expected an object, found {type(manifest).__name__}")
    files.check_format(manifest, report.MANIFEST_FORMAT, MANIFEST)
    rows = {key: cells for table in TABLES for key, cells in table_rows(table, texts[table])}
    coverage = {cells["operator"]: cells for cells in _cells(texts[COVERAGE_TABLE])}
    return Results(rows, coverage, manifest)


def table_rows(table: str, text: str) -> Iterable[tuple[Key, Cells]]:
    """Give each row of a table with its key; rows that agree in all of it are numbered."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for cells in _cells(text):
        key = (cells["operator"], cells["dtype"], cells["shape"])
        yield (table, *key, seen[key]), cells
        seen[key] += 1


def aligned(results: Results, other: Results) -> Results:
    """Move the rows into the table where ``other`` has the same operator, dtype and shape.

    A hand-made CSV does not tell which table it is, and a formula may change its metric.
    """
    places = {key[1:]: key for key in other.rows}
    rows = {}
    for key, cells in results.rows.items():
        place = places.get(key[1:], key)
        rows[key if key in other.rows or place in results.rows else place] = cells
    return Results(rows, results.coverage, results.manifest)


def has_rates(results: Results) -> bool:
    """Tell whether the rows come from a table with rates, which tell the two tables apart."""
    return any(name.startswith("achieved_") for cells in results.rows.values() for name in cells)


def file_texts(results: Results) -> dict[str, str]:
    """Write a set as the texts of its four files."""
    texts = {
        table: report.table(
            columns, (cells for key, cells in results.rows.items() if key[0] == table)
        )
        for table, (_, columns) in TABLES.items()
    }
    return {
        **texts,
        COVERAGE_TABLE: report.table(report.COVERAGE_COLUMNS, results.coverage.values()),
        MANIFEST: files.json_text(results.manifest),
    }


def _cells(text: str) -> Iterable[Cells]:
    """Give each row by column; raise ValueError where a row is not as long as the header."""
    lines = csv.DictReader(io.StringIO(text, newline=""))
    for cells in lines:
        if None in cells or None in cells.values():
            raise ValueError(
                f"line {lines.line_num}: expected as many cells as the header has columns"
            )
        yield cells

"""Fold runs into the published set: decided purely, on the files as they were published.

A row is one operator, dtype and shape. A passing result beats one that did not pass, a newer one
an older one of its kind; every other row stays.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fusion import Refusal, journal, report
from fusion import rows as tables
from fusion.journal import COMPUTE_TABLE, COVERAGE_TABLE, MANIFEST, MEMORY_TABLE

_TABLES = (COMPUTE_TABLE, MEMORY_TABLE)
_WORTH = {"PASSED": 2, "PARTIAL": 1}
_Cells = dict[str, str]
_Key = tuple[str, str, str, str, int]


class MergeError(Refusal):
    """Refuse to mix results that were not measured under the same conditions."""


@dataclass(frozen=True)
class PublishedSet:
    """Hold the four files of one state, parsed. Rows are keyed in the order of their tables."""

    rows: Mapping[_Key, _Cells]
    coverage: Mapping[str, _Cells]
    manifest: Mapping[str, Any]

    def rank(self, operator: str, run_id: str) -> tuple[int, str, str]:
        """Order results: by how far the operator got in that run, then by when it ran."""
        run = self.manifest["runs"][run_id]
        return _WORTH.get(run["statuses"].get(operator, ""), 0), run["created"], run_id


@dataclass(frozen=True)
class Effect:
    """Say what merging does: the merged set, and one line for each thing that changes."""

    merged: PublishedSet
    changes: tuple[str, ...]


def parse(files: Mapping[str, str]) -> PublishedSet:
    """Read a set from the texts of its four files; raise JournalError for a newer format."""
    manifest = json.loads(files[MANIFEST])
    journal.check_format(manifest, report.MANIFEST_FORMAT, MANIFEST)
    rows: dict[_Key, _Cells] = {}
    for table in _TABLES:
        seen: Counter[tuple[str, str, str]] = Counter()
        for cells in _cells(files[table]):
            key = (cells["operator"], cells["dtype"], cells["shape"])
            rows[(table, key[0], key[1], key[2], seen[key])] = cells
            seen[key] += 1
    coverage = {cells["operator"]: cells for cells in _cells(files[COVERAGE_TABLE])}
    return PublishedSet(rows, coverage, manifest)


def files(state: PublishedSet) -> dict[str, str]:
    """Write a set as the texts of its four files."""
    columns = {
        COMPUTE_TABLE: tables.COMPUTE_COLUMNS,
        MEMORY_TABLE: tables.MEMORY_COLUMNS,
    }
    texts = {
        table: report.table(
            columns[table], (cells for key, cells in state.rows.items() if key[0] == table)
        )
        for table in _TABLES
    }
    return {
        **texts,
        COVERAGE_TABLE: report.table(report.COVERAGE_COLUMNS, state.coverage.values()),
        MANIFEST: journal.json_text(state.manifest),
    }


def fold(published: PublishedSet | None, incoming: PublishedSet) -> Effect:
    """Merge one run into a set, or make a set of it; raise MergeError if they do not compare."""
    if published is None:
        run = ", ".join(incoming.manifest["runs"])
        return Effect(incoming, (f"published: the first set, from run {run}",))
    _check_comparable(published, incoming)
    both = _with_runs(published, incoming)
    rows, row_changes = _rows(both, incoming)
    coverage, coverage_changes = _coverage(both, incoming, rows)
    changes = (*row_changes, *coverage_changes)
    if not changes:
        return Effect(published, ())
    return Effect(PublishedSet(rows, coverage, _manifest(both, incoming, rows, coverage)), changes)


def _check_comparable(published: PublishedSet, incoming: PublishedSet) -> None:
    old, new = published.manifest["conditions"], incoming.manifest["conditions"]
    differences = [
        f"{key}: published {old.get(key)!r}, new {new.get(key)!r}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]
    if differences:
        runs = ", ".join(incoming.manifest["runs"])
        raise MergeError(
            f"run {runs}: expected the conditions of the published set, found other ones:\n  "
            + "\n  ".join(differences)
            + "\npublish it on its own into another --output-dir, or measure again"
        )


def _with_runs(published: PublishedSet, incoming: PublishedSet) -> PublishedSet:
    runs = {**published.manifest["runs"], **incoming.manifest["runs"]}
    return PublishedSet(published.rows, published.coverage, {**published.manifest, "runs": runs})


def _rows(both: PublishedSet, incoming: PublishedSet) -> tuple[dict[_Key, _Cells], list[str]]:
    merged, changes = dict(both.rows), []
    for key, cells in incoming.rows.items():
        name = f"{key[1]} {key[2]} {key[3]}"
        if key not in merged:
            changes.append(f"{name}: new, from run {cells['run_id']}")
        elif _beats(both, cells, merged[key]):
            changes.append(f"{name}: run {cells['run_id']} replaces {merged[key]['run_id']}")
        else:
            continue
        merged[key] = cells
    return merged, changes


def _beats(both: PublishedSet, new: _Cells, old: _Cells) -> bool:
    if new == old:
        return False
    ranks = [both.rank(cells["operator"], cells["run_id"]) for cells in (new, old)]
    return ranks[0] > ranks[1]


def _coverage(
    both: PublishedSet, incoming: PublishedSet, rows: Mapping[_Key, _Cells]
) -> tuple[dict[str, _Cells], list[str]]:
    merged, changes = dict(both.coverage), []
    for operator, line in incoming.coverage.items():
        old = merged.get(operator)
        new_rank = both.rank(operator, line["run_id"].split()[0])
        if old is not None and new_rank <= both.rank(operator, old["run_id"].split()[0]):
            continue
        merged[operator] = line
        changes.append(f"{operator}: {line['status']} in run {line['run_id']}")
    return {name: _naming_runs(line, rows) for name, line in merged.items()}, changes


def _naming_runs(line: _Cells, rows: Mapping[_Key, _Cells]) -> _Cells:
    contributing = (cells["run_id"] for key, cells in rows.items() if key[1] == line["operator"])
    runs = dict.fromkeys([line["run_id"].split()[0], *contributing])
    return {**line, "run_id": " ".join(runs)}


def _manifest(
    both: PublishedSet,
    incoming: PublishedSet,
    rows: Mapping[_Key, _Cells],
    coverage: Mapping[str, _Cells],
) -> dict[str, Any]:
    """Describe the newest run, with all runs, and the origin of every row."""
    newest = max((both.manifest, incoming.manifest), key=lambda manifest: manifest["created"])
    errors = [
        error
        for manifest in (both.manifest, incoming.manifest)
        for error in manifest["errors"]
        if error["run_id"] in coverage[error["operator"]]["run_id"].split()
    ]
    return {
        **newest,
        "runs": both.manifest["runs"],
        "coverage": list(coverage.values()),
        "errors": list({json.dumps(error): error for error in errors}.values()),
        "rows": dict(Counter(_category(key[0]) for key in rows)),
        "row_sources": sources(rows),
    }


def sources(rows: Mapping[_Key, _Cells]) -> list[dict[str, str]]:
    """Tell for every row which run it came from."""
    return [
        {**{name: cells[name] for name in ("operator", "dtype", "shape", "run_id")}}
        for cells in rows.values()
    ]


def _category(table: str) -> str:
    return "compute" if table == COMPUTE_TABLE else "memory"


def _cells(text: str) -> Iterable[_Cells]:
    return csv.DictReader(io.StringIO(text, newline=""))

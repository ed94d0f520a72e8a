"""Fold runs into the published set: decided purely, on the files as they were published.

A row is one operator, dtype and shape. A passing result beats one that did not pass, a newer one
an older one of its kind; every other row stays.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusion.errors import Refusal
from fusion.results import TABLES, Cells, Key, Results

_WORTH = {"PASSED": 2, "PARTIAL": 1}


class MergeError(Refusal):
    """Refuse to mix results that were not measured under the same conditions."""


@dataclass(frozen=True)
class Effect:
    """Say what merging does: the merged set, and one line for each thing that changes."""

    merged: Results
    changes: tuple[str, ...]


def fold(published: Results | None, incoming: Results) -> Effect:
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
    return Effect(Results(rows, coverage, _manifest(both, incoming, rows, coverage)), changes)


def _check_comparable(published: Results, incoming: Results) -> None:
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


def _with_runs(published: Results, incoming: Results) -> Results:
    runs = {**published.manifest["runs"], **incoming.manifest["runs"]}
    return Results(published.rows, published.coverage, {**published.manifest, "runs": runs})


def _rows(both: Results, incoming: Results) -> tuple[dict[Key, Cells], list[str]]:
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


def _beats(both: Results, new: Cells, old: Cells) -> bool:
    if new == old:
        return False
    ranks = [_rank(both, cells["operator"], cells["run_id"]) for cells in (new, old)]
    return ranks[0] > ranks[1]


def _rank(results: Results, operator: str, run_id: str) -> tuple[int, str, str]:
    """Order results: by how far the operator got in that run, then by when it ran."""
    run = results.manifest["runs"][run_id]
    return _WORTH.get(run["statuses"].get(operator, ""), 0), run["created"], run_id


def _coverage(
    both: Results, incoming: Results, rows: Mapping[Key, Cells]
) -> tuple[dict[str, Cells], list[str]]:
    merged, changes = dict(both.coverage), []
    for operator, line in incoming.coverage.items():
        old = merged.get(operator)
        new_rank = _rank(both, operator, line["run_id"].split()[0])
        if old is not None and new_rank <= _rank(both, operator, old["run_id"].split()[0]):
            continue
        merged[operator] = line
        changes.append(f"{operator}: {line['status']} in run {line['run_id']}")
    return {name: _naming_runs(line, rows) for name, line in merged.items()}, changes


def _naming_runs(line: Cells, rows: Mapping[Key, Cells]) -> Cells:
    contributing = (cells["run_id"] for key, cells in rows.items() if key[1] == line["operator"])
    runs = dict.fromkeys([line["run_id"].split()[0], *contributing])
    return {**line, "run_id": " ".join(runs)}


def _manifest(
    both: Results,
    incoming: Results,
    rows: Mapping[Key, Cells],
    coverage: Mapping[str, Cells],
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
        **_around_operators(both, incoming, coverage),
        "runs": both.manifest["runs"],
        "coverage": list(coverage.values()),
        "errors": list({json.dumps(error): error for error in errors}.values()),
        "rows": dict(Counter(TABLES[key[0]][0] for key in rows)),
        "row_sources": sources(rows),
    }


def _around_operators(
    both: Results, incoming: Results, coverage: Mapping[str, Cells]
) -> dict[str, Any]:
    """Take the outcomes, which have the machine's state, and the pinning from an operator's run."""
    new = {
        operator
        for operator, line in coverage.items()
        if line["run_id"].split()[0] in incoming.manifest["runs"]
    }
    old, given = both.manifest, incoming.manifest
    outcomes = [
        *(ended for ended in old["operators"] if ended["operator"] not in new),
        *(ended for ended in given["operators"] if ended["operator"] in new),
    ]
    pinnings = (old.get("pinning_in_force", {}), given.get("pinning_in_force", {}))
    kept = {name: value for name, value in pinnings[0].items() if name not in new}
    kept |= {name: value for name, value in pinnings[1].items() if name in new}
    return {"operators": outcomes, "pinning_in_force": kept}


def sources(rows: Mapping[Key, Cells]) -> list[dict[str, str]]:
    """Tell for every row which run it came from."""
    return [
        {**{name: cells[name] for name in ("operator", "dtype", "shape", "run_id")}}
        for cells in rows.values()
    ]

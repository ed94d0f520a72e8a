"""List what differs around two sets of results: machine, suite, formulas, settings, versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion.results import Cells, Results
from fusion.suite import DIRTY, UNKNOWN_REVISION

_MACHINE = ("host", "cpu_model", "architecture", "cpus", "last_level_cache_bytes", "memory_bytes")
# What of the machine's state at the start is the same all the time, unless somebody changes it.
_STATE = ("governor", "turbo", "smt", "thp", "numa_balancing")
# What a setting of these names says is said by other facts, or changes no measurement.
_NO_CONDITIONS = {"output_dir", "timeout", "shape_file"}
_SAID_ELSEWHERE = {"suite", "cpu_model", "omp_threads", "formulas", "targets"}
_ROW_CONDITIONS = ("omp_threads", "numa_node", "warmup", "iter", "mode", "level")


@dataclass(frozen=True)
class Difference:
    """Name something that differs between both sides, with both values; None is unknown."""

    name: str
    a: Any
    b: Any


def unknown(a: Results, b: Results) -> Iterable[str]:
    """Say of which side nothing is known but its rows, or not which code it measured."""
    for name, results in (("A", a), ("B", b)):
        revision = str(results.manifest.get("suite_revision") or "")
        if not results.manifest:
            yield f"{name} has no manifest: its machine and settings are unknown"
        elif revision == UNKNOWN_REVISION:
            yield f"{name} measured a suite of unknown revision: its code may differ"
        elif revision.endswith(DIRTY):
            yield f"{name} measured a suite with local changes, {revision}: its code may differ"


def differences(a: Results, b: Results) -> Iterable[Difference]:
    """List what differs around the measurements: from the manifests, else from the rows."""
    columns: tuple[str, ...] = ("pipeline",)
    if a.manifest and b.manifest:
        left, right = facts(a.manifest), facts(b.manifest)
        for name in dict.fromkeys([*left, *right]):
            if left.get(name) != right.get(name):
                yield Difference(name, left.get(name), right.get(name))
    else:
        columns += _ROW_CONDITIONS
    matched = [(a.rows[key], b.rows[key]) for key in a.rows if key in b.rows]
    for column in columns:
        yield from _column(column, matched)


def facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Name what a manifest says of machine, suite, settings and versions, flat."""
    machine, settings = manifest.get("machine") or {}, manifest.get("settings") or {}
    targets = manifest.get("targets") or {}
    measured = targets.get("measured")
    conditions, versions = manifest.get("conditions") or {}, manifest.get("versions") or {}
    chosen = {name: entry["value"] for name, entry in settings.items()}
    operators = manifest.get("operators") or [{}]
    state = operators[0].get("before") or {}
    rest = {name: value for name, value in conditions.items() if name not in _SAID_ELSEWHERE}
    return {
        **{f"machine {name}": machine.get(name) for name in (*_MACHINE, "kernel")},
        **{f"machine {name}": state[name] for name in _STATE if state.get(name) is not None},
        "suite": manifest.get("suite"),
        "suite revision": manifest.get("suite_revision"),
        "formulas SHA-256": manifest.get("formulas_sha256"),
        "targets SHA-256": targets.get("sha256"),
        "measured ceilings": f"{measured['when']} on {measured['host']}" if measured else None,
        **{f"setting {n}": value for n, value in chosen.items() if n not in _NO_CONDITIONS},
        **{f"condition {n}": value for n, value in rest.items() if n not in chosen},
        **{name: manifest.get(name) for name in ("omp_threads", "pinned", "pinning")},
        "repeats per operator": manifest.get("repeat", 1),
        **{f"version of {name}": value for name, value in versions.items()},
    }


def _column(column: str, matched: Sequence[tuple[Cells, Cells]]) -> Iterable[Difference]:
    pairs = [(x.get(column) or "-", y.get(column) or "-") for x, y in matched]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if differing:
        left, right = (" ".join(sorted(set(values))) for values in zip(*differing))
        yield Difference(f"{column} of {len(differing)} of {len(pairs)} rows", left, right)

"""Say in words and tables what results rest on: machine, settings, formulas, targets, state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion import ceilings
from fusion.page import points
from fusion.results import Cells, Results

_COVERAGE = ("PASSED", "SKIPPED", "DISABLED", "MISSING")
_GIB = 1 << 30


@dataclass(frozen=True)
class Table:
    """Hold lines of texts; a table without heads is a list of names and values."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """Hold the tables of one part of a page."""

    id: str
    title: str
    tables: Sequence[Table]


def summary(results: Results) -> str:
    """Say in a sentence how many operators and cases there are and how far they got."""
    states = Counter(line["status"] for line in results.coverage.values())
    told = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    found = [
        value
        for cells in results.rows.values()
        if (value := points.number(cells, "attainment_pct")) is not None
    ]
    mean = math.exp(math.fsum(map(math.log, found)) / len(found)) if found else None
    reached = "" if mean is None else f"; geometric mean {mean:.3g} % of the target"
    return f"{told}{'; ' if told else ''}{len(results.rows)} cases{reached}"


def percentages(results: Results) -> str:
    """Say what the percentages refer to."""
    declared = results.manifest.get("targets") or {}
    text = "Percentages refer to the target of the pipeline and dtype (data sheet x efficiency)"
    if declared.get("override_tflops") or declared.get("override_gbps"):
        text = "Percentages refer to the target given on the command line where there is one"
    measured = ceilings.from_json(declared.get("measured"))
    if measured:
        machine = results.manifest.get("machine") or {}
        threads, nodes = results.manifest["omp_threads"], ceilings.nodes(results.manifest)
        obstacle = measured.obstacle(machine.get("cpu_model"), threads, nodes)
        if obstacle:
            return f"{text}. The measured ceilings are not shown: {obstacle}."
        warnings = measured.warnings(machine.get("host"), threads, nodes)
        beware = f" Beware: {'; '.join(warnings)}." if warnings else ""
        return (
            f"{text}; a column of its own refers to the ceiling that {measured.library} reached "
            f"on {measured.host}.{beware}"
        )
    return f"{text}. No ceiling was measured: 'inv calibrate' does."


def coverage(results: Results) -> list[Cells]:
    """Order the coverage by what needs attention."""
    lines = [
        {"repeats": "", "unstable": "", **line}  # older sets have no such columns
        for line in results.coverage.values()
    ]
    return sorted(lines, key=lambda line: (line["status"] in _COVERAGE, line["status"]))


def sections(manifest: Mapping[str, Any]) -> list[Section]:
    """Describe the machine and the settings from a manifest; nothing for results without one."""
    if not manifest:
        unknown = Table("", (), [("manifest", "none: machine and settings are unknown")])
        return [Section("machine", "Machine", [unknown]), Section("settings", "Settings", [])]
    machine = [Table("", (), _machine(manifest)), _ceilings(manifest), _states(manifest)]
    settings = [Table("", (), _origin(manifest)), _settings(manifest)]
    return [
        Section("machine", "Machine", [table for table in machine if table.lines]),
        Section("settings", "Settings and formulas", settings),
    ]


def _machine(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = [
        (name.replace("_", " "), _text(name, value)) for name, value in manifest["machine"].items()
    ]
    versions = [(name, str(version)) for name, version in manifest.get("versions", {}).items()]
    pinning = "numactl" if manifest["pinned"] else f"none ({manifest['pinning']})"
    bindings = "; ".join(
        f"node {binding['node']}, {len(binding['cpus'])} CPUs" for binding in manifest["bindings"]
    )
    in_force = {
        ", ".join(f"{key} {value}" for key, value in each.items())
        for each in manifest.get("pinning_in_force", {}).values()
    }
    return [
        *known,
        *versions,
        ("pinning", pinning),
        ("bindings", bindings),
        ("threads of a child", str(manifest["omp_threads"])),
        *(("in force in the children, start to end", text) for text in sorted(in_force)),
    ]


def _origin(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("runs", ", ".join(manifest.get("runs", {}))),
        ("created", str(manifest["created"])),
        ("suite", f"{manifest['suite']} at {manifest['suite_root']}"),
        ("suite revision", str(manifest["suite_revision"])),
        ("Python of the children", str(manifest["python"])),
        ("formulas", str(manifest["formulas"])),
        ("formulas SHA-256", str(manifest["formulas_sha256"])),
        ("targets", str(manifest["targets"]["path"])),
        ("targets SHA-256", str(manifest["targets"]["sha256"])),
        ("repeats", str(manifest.get("repeat", 1))),
        ("time unit of warmup and iter", str(manifest["time_unit"])),
    ]


def _settings(manifest: Mapping[str, Any]) -> Table:
    lines = [
        (name, "-" if entry["value"] is None else str(entry["value"]), entry["source"])
        for name, entry in manifest["settings"].items()
    ]
    return Table("Effective settings", ("setting", "value", "source"), lines)


def _ceilings(manifest: Mapping[str, Any]) -> Table:
    measured = ceilings.from_json(manifest["targets"].get("measured"))
    if measured is None:
        return Table("", (), [])
    title = f"Measured ceilings ({measured.when}, {measured.host}, {measured.library})"
    return Table(title, *ceilings.table(measured))


def _states(manifest: Mapping[str, Any]) -> Table:
    heads = [
        *("operator", "repeat", "moment", "when", "CPUs", "load", "MHz", "governor", "turbo"),
        *("SMT", "THP", "NUMA balancing", "free GiB by node", "in force in the child"),
    ]
    pinnings = manifest.get("pinning_in_force", {})
    lines = [
        (*_state(ended, moment, ended[key]), _in_force(pinnings.get(ended["operator"]), moment))
        for ended in manifest.get("operators", ())
        for key, moment in (("before", "start"), ("after", "end"))
        if ended.get(key)
    ]
    return Table("State of the machine around each operator", heads, lines)


def _state(ended: Mapping[str, Any], moment: str, state: Mapping[str, Any]) -> tuple[str, ...]:
    frequency = state.get("frequency_mhz") or {}
    free = state.get("memory_free_bytes") or {}
    told = [state.get(name) for name in ("governor", "turbo", "smt", "thp", "numa_balancing")]
    return (
        ended["operator"],
        str(ended.get("repeat", 0) + 1),
        moment,
        str(state["when"])[:19],
        _known(state.get("cpus")),
        _known(state.get("load_1m")),
        _range(frequency),
        *map(_known, told),
        ", ".join(f"{node}: {size / _GIB:.1f}" for node, size in free.items()) or "-",
    )


def _range(frequency: Mapping[str, float]) -> str:
    """Write the frequencies of an operator's CPUs: one where they agree, else least to most."""
    ends = dict.fromkeys(f"{frequency[name]:.0f}" for name in ("min", "max") if name in frequency)
    return "-".join(ends) or "-"


def _in_force(pinning: Mapping[str, str] | None, moment: str) -> str:
    """Write CPUs and memory policy that were in force in an operator's child."""
    told = {**pinning} if pinning else {}
    if moment == "end":
        told |= {key: told.get(f"{key}_at_end", told[key]) for key in tuple(told)}
    parts = [
        f"{title} {told[key]}"
        for key, title in (("cpus", "CPUs"), ("memory_policy", "memory"))
        if told.get(key)
    ]
    return ", ".join(parts) or "-"


def _known(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, int) and name.endswith("_bytes"):
        return f"{value} ({value / _GIB:.3g} GiB)"
    return _known(value)

"""Check formulas on recorded calls, without PyTorch or FlagGems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tabulate import tabulate

from fusion.formulas import recorded
from fusion.formulas.catalogue import Catalogue, FormulaError
from fusion.formulas.recorded import Call
from fusion.formulas.tensors import EvaluationError, total_bytes
from fusion.text import nearest

_UNITS = {"logical_flops": "FLOP", "logical_bytes": "byte"}


@dataclass(frozen=True)
class Replayed:
    """Hold what a formula gives for one recorded call: a value, or why there is none.

    ``intensity`` is FLOP per byte of the call's tensors, for operators whose FLOP are counted.
    """

    op: str
    case: int
    operator: str | None
    metric: str | None
    value: int | None
    intensity: float | None
    failure: str


def replay(catalogue: Catalogue, path: Path, operators: Iterable[str] = ()) -> tuple[Replayed, ...]:
    """Evaluate every recorded call of a file, or those of some operators.

    Raise CasesError for a file that is none, UnknownOperator for a name that no formula has.
    """
    chosen = {catalogue.resolve(name).operator for name in operators}
    counts: dict[str, int] = {}
    replayed = []
    for call in recorded.load(path):
        if chosen and _operator(catalogue, call) not in chosen:
            continue
        case = counts.get(call.op, 0)
        counts[call.op] = case + 1
        replayed.append(_replayed(catalogue, call, case))
    return tuple(replayed)


def table(replayed: Iterable[Replayed]) -> str:
    """Write a line per operator: cases counted, range of values, intensity, first failure."""
    lines = [_line(op, list(calls)) for op, calls in groupby(_sorted(replayed), lambda r: r.op)]
    headers = ["operation", "counted", "unit", "least", "most", "FLOP/byte", "failure"]
    return tabulate(lines, headers=headers, disable_numparse=True)


def detail(replayed: Iterable[Replayed]) -> str:
    """Write a line per recorded call: value, unit, intensity, failure."""
    lines = [
        (
            call.op,
            str(call.case),
            "-" if call.value is None else f"{call.value:,}",
            _UNITS.get(call.metric or "", ""),
            "-" if call.intensity is None else f"{call.intensity:.3g}",
            call.failure[:120],
        )
        for call in _sorted(replayed)
    ]
    headers = ["operation", "case", "value", "unit", "FLOP/byte", "failure"]
    return tabulate(lines, headers=headers, disable_numparse=True)


def summary(replayed: Iterable[Replayed]) -> str:
    """Say in one line how many calls have an exact positive integer."""
    every = list(replayed)
    failed = {call.op for call in every if call.failure}
    counted = sum(not call.failure for call in every)
    text = (
        f"{counted} of {len(every)} calls of {len({call.op for call in every})} operations counted"
    )
    return f"{text}; not all of: {', '.join(sorted(failed))}" if failed else text


def _operator(catalogue: Catalogue, call: Call) -> str | None:
    formula = catalogue.find(call.op)
    return formula.operator if formula else None


def _replayed(catalogue: Catalogue, call: Call, case: int) -> Replayed:
    formula = catalogue.find(call.op)
    if formula is None:
        known = [name for each in catalogue.formulas.values() for name in each.names]
        told = f"no formula has this name{nearest(call.op, known)}"
        return Replayed(call.op, case, None, None, None, None, told)
    try:
        value = formula.value(call.args, call.kwargs)
    except FormulaError as error:
        return Replayed(call.op, case, formula.operator, formula.metric, None, None, str(error))
    intensity = _intensity(call, value) if formula.category == "compute" else None
    failure = "" if value > 0 else "the value is 0"
    return Replayed(call.op, case, formula.operator, formula.metric, value, intensity, failure)


def _intensity(call: Call, flop: int) -> float | None:
    try:
        moved = total_bytes([*call.args, *call.kwargs.values()])
    except EvaluationError:
        return None  # a dtype of unknown size
    return flop / moved if moved else None


def _sorted(replayed: Iterable[Replayed]) -> list[Replayed]:
    return sorted(replayed, key=lambda call: (call.op, call.case))


def _line(op: str, calls: list[Replayed]) -> tuple[str, ...]:
    values = [call.value for call in calls if call.value is not None]
    intensities = [call.intensity for call in calls if call.intensity is not None]
    failures = [call.failure for call in calls if call.failure]
    metric = next((call.metric for call in calls if call.metric), "") or ""
    return (
        op,
        f"{len(calls) - len(failures)}/{len(calls)}",
        _UNITS.get(metric, ""),
        f"{min(values):,}" if values else "-",
        f"{max(values):,}" if values else "-",
        f"{min(intensities):.3g} to {max(intensities):.3g}" if intensities else "-",
        failures[0][:120] if failures else "",
    )

"""Read what a child left behind: the case file first, the suite's record log second."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion.contract import METRICS
from fusion.journal import Attempt

_LOG_PREFIX = "[INFO] {"


@dataclass(frozen=True)
class Case:
    """Hold one call of an operator as measured; latencies in ms, None where unknown.

    ``logical`` is a number of FLOP or bytes, as ``metric`` says. ``error`` is the suite's own
    message about the measurement, ``formula_error`` the formula's.
    """

    number: int
    op_name: str
    operator: str | None
    dtype: str | None
    shape: Any
    state: str
    latency_ms: float | None = None
    baseline_latency_ms: float | None = None
    speedup: float | None = None
    metric: str | None = None
    logical: int | None = None
    error: str | None = None
    formula_error: str | None = None
    tensor_bytes: int | None = None

    @property
    def is_measured(self) -> bool:
        """Tell whether the case has a latency that can be divided by."""
        return self.error is None and is_latency(self.latency_ms)

    @property
    def problem(self) -> str | None:
        """Say what keeps this case from being a full result, None when nothing does."""
        if self.error is not None:
            return self.error or "the benchmark failed without a message"
        if self.state == "started":
            return None
        if not is_latency(self.latency_ms):
            return f"the latency is {_told(self.latency_ms)}"
        if self.formula_error is not None:
            return f"formula: {self.formula_error}"
        if self.logical is None:
            return "no logical_flops or logical_bytes was recorded"
        return None

    def describe(self) -> str:
        """Name the case by number, shape and dtype."""
        shape = json.dumps(self.shape, separators=(",", ":"))
        return f"case {self.number} ({shape[:200]}, {self.dtype})"


@dataclass(frozen=True)
class Test:
    """Hold the outcome of one phase of one test."""

    node: str
    phase: str
    outcome: str
    message: str


@dataclass(frozen=True)
class Records:
    """Hold everything that one attempt left. ``ended`` is False when pytest did not finish.

    ``pinning`` is what was in force in the child at its start; what was another at its end is there
    again, named ``..._at_end``.
    """

    cases: tuple[Case, ...] = ()
    tests: tuple[Test, ...] = ()
    uncollected: tuple[str, ...] = ()
    ended: bool = False
    versions: Mapping[str, str] | None = None
    source: str = ""
    pinning: Mapping[str, str] | None = None

    @property
    def measured(self) -> tuple[Case, ...]:
        """List the cases with a usable latency."""
        return tuple(case for case in self.cases if case.is_measured)

    @property
    def running(self) -> Case | None:
        """Return the case that had begun and was neither measured nor failed."""
        unfinished = [case for case in self.cases if case.state == "started"]
        return unfinished[-1] if unfinished else None


def is_latency(value: float | None) -> bool:
    """Tell whether a latency in ms is a finite positive number."""
    return value is not None and math.isfinite(value) and value > 0


def read(attempt: Attempt) -> Records:
    """Read an attempt's folder; damaged lines are read past, an absent file is an empty one."""
    records = from_case_file(attempt.cases)
    if records.cases:
        return records
    logged = from_record_log(attempt.record)
    return Records(
        cases=logged,
        tests=records.tests,
        uncollected=records.uncollected,
        ended=records.ended,
        versions=records.versions,
        source=attempt.record.name if logged else records.source,
    )


def from_case_file(path: Path) -> Records:
    """Read the plugin's case file. The last line about a case is the one that counts."""
    cases: dict[int, Case] = {}
    tests: list[Test] = []
    uncollected: list[str] = []
    ended, versions, pinning = False, None, None
    for event in _events(path):
        kind = event.get("event")
        if kind == "case":
            cases[event["case"]] = _case(event)
        elif kind == "test":
            tests.append(Test(event["node"], event["phase"], event["outcome"], event["message"]))
        elif kind == "collect" and event.get("outcome") == "skipped":
            tests.append(Test(event["node"], "collect", "skipped", event["message"]))
        elif kind == "collect":
            uncollected.append(event["message"] or event["node"])
        elif kind == "session":
            versions = {"python": event.get("python", ""), **event.get("versions", {})}
            pinning = event.get("pinning")
        elif kind == "end":
            ended, pinning = True, _until_end(pinning, event.get("pinning"))
    ordered = tuple(cases[number] for number in sorted(cases))
    return Records(ordered, tuple(tests), tuple(uncollected), ended, versions, path.name, pinning)


def _until_end(
    start: Mapping[str, str] | None, end: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """Add to the pinning at the start what was another at the end."""
    if start is None or end is None:
        return start
    changed = {f"{key}_at_end": value for key, value in end.items() if value != start.get(key)}
    return {**start, **changed}


def from_record_log(path: Path) -> tuple[Case, ...]:
    """Read the record log of FlagGems: one JSON object per benchmark and dtype."""
    cases: list[Case] = []
    for line in _lines(path):
        if line.startswith(_LOG_PREFIX):
            cases += _logged(_parsed(line.partition(" ")[2]), len(cases))
    return tuple(cases)


def _logged(record: Mapping[str, Any], first: int) -> list[Case]:
    results = record.get("result")
    if not isinstance(results, list):
        return []
    return [
        _case(
            {
                "case": first + index,
                "op_name": record.get("op_name", ""),
                "dtype": str(record.get("dtype")).rpartition(".")[2],
                "shape": result.get("shape_detail"),
                "state": "failed" if result.get("error_msg") else "measured",
                "latency_ms": result.get("latency"),
                "baseline_latency_ms": result.get("latency_base"),
                "speedup": result.get("speedup"),
                "error": result.get("error_msg"),
                **{name: result[name] for name in METRICS if result.get(name) is not None},
            }
        )
        for index, result in enumerate(results)
        if isinstance(result, dict)
    ]


def _case(event: Mapping[str, Any]) -> Case:
    metric = next((name for name in METRICS if _is_count(event.get(name))), None)
    return Case(
        number=event["case"],
        op_name=event.get("op_name", ""),
        operator=event.get("operator"),
        dtype=event.get("dtype"),
        shape=event.get("shape"),
        state=event.get("state", "started"),
        latency_ms=_number(event.get("latency_ms")),
        baseline_latency_ms=_number(event.get("baseline_latency_ms")),
        speedup=_number(event.get("speedup")),
        metric=metric,
        logical=event[metric] if metric else None,
        error=event.get("error"),
        formula_error=None if metric else event.get("formula_error"),
        tensor_bytes=event["tensor_bytes"] if _is_count(event.get("tensor_bytes")) else None,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan


def _told(latency: float | None) -> str:
    return "missing" if latency is None else f"{latency!r} ms"


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in _lines(path):
        event = _parsed(line)
        if _is_complete(event):
            yield event


def _is_complete(event: Mapping[str, Any]) -> bool:
    if event.get("event") == "case":
        return isinstance(event.get("case"), int)
    texts = {"test": ("node", "phase", "outcome", "message"), "collect": ("node", "message")}
    return all(isinstance(event.get(key), str) for key in texts.get(event.get("event", ""), ()))


def _parsed(line: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line, parse_constant=str)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return []

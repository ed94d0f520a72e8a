"""Show findings as text, and keep them as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from tabulate import tabulate

from fusion.audit.verdict import Finding, Kind, Summary, summarise

_CASES = ("operator", "case", "metric", "formula", "observed", "ratio", "verdict", "because")
_TENSORS = ("tensor", "role", "dtype", "shape", "bytes", "read", "written")


def cases(findings: Iterable[Finding]) -> str:
    """Return a table with a line for each case."""
    rows = [
        (
            each.operator,
            each.case,
            (each.metric or "").replace("logical_", ""),
            each.formula,
            each.observed,
            "" if each.ratio is None else f"{each.ratio:.4g}",
            _clipped(each.verdict),
            _clipped(each.because),
        )
        for each in findings
    ]
    return tabulate(rows, headers=_CASES, disable_numparse=True)


def operators(findings: Iterable[Finding]) -> str:
    """Return a table with a line for each operator: the verdict of its worst case."""
    rows = [
        (
            each.operator,
            f"{each.exact}/{each.cases}",
            _clipped(each.verdict),
            _clipped(each.worst.because),
        )
        for each in summarise(findings)
    ]
    headers = ("operator", "exact", "verdict", "because")
    return tabulate(rows, headers=headers, disable_numparse=True)


def tensors(finding: Finding) -> str:
    """Return the table of a case's tensors: size, bytes read before written, bytes written."""
    held = finding.observation.tensors if finding.observation is not None else ()
    rows = [
        (each.name, each.role, each.dtype, list(each.shape), each.size, each.read, each.written)
        for each in held
    ]
    return tabulate(rows, headers=_TENSORS, disable_numparse=True)


def summary(findings: Iterable[Finding]) -> str:
    """Return one line: how many operators got which verdict."""
    summaries = summarise(findings)
    counts = Counter(each.worst.kind for each in summaries)
    told = ", ".join(f"{counts[kind]} {kind.value}" for kind in Kind if counts[kind])
    unexplained = [each.operator for each in summaries if each.worst.unexplained]
    told += f"; unexplained: {', '.join(unexplained)}" if unexplained else ""
    return f"{sum(counts.values())} operators: {told}" if counts else "no operator was audited"


def as_json(findings: Iterable[Finding], revision: str) -> str:
    """Return the operators' verdicts with the suite's revision that was audited."""
    held = {each.operator: _told(each) for each in summarise(findings)}
    return json.dumps({"revision": revision, "operators": held}, indent=1) + "\n"


def _told(each: Summary) -> dict[str, object]:
    return {
        "verdict": each.verdict,
        "kind": each.worst.kind.value,
        "cases": each.cases,
        "exact": each.exact,
        "because": each.worst.because,
    }


def _clipped(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"

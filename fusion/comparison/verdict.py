"""Compare two sets of results, A and B: what differs around them, and a verdict for every row.

A ratio is B's latency over A's: over 1, B is slower. Latencies are in ms.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusion.comparison.differences import Difference, differences, unknown
from fusion.errors import Refusal
from fusion.records import is_latency
from fusion.results import Cells, Key, Results
from fusion.rows import SUSPECT, UNSTABLE, marked
from fusion.stats.rank_test import ALPHA, RankTest, enough_repeats, reachable, tested

SLOWER, FASTER, CANNOT_TELL, SAME = "slower", "faster", "can't tell", "same"
ONLY_A, ONLY_B = "only in A", "only in B"
VERDICTS = (SLOWER, FASTER, CANNOT_TELL, SAME, ONLY_A, ONLY_B)
ABSENT = "not in its results"
NOISE = "the difference may be noise"


class CompareError(Refusal):
    """Refuse an option of a comparison."""


@dataclass(frozen=True)
class Measurement:
    """Hold one side of a row: median, median absolute deviation, and each repeat's latency."""

    latency_ms: float | None
    mad_ms: float | None
    samples: tuple[float, ...]
    problem: str


@dataclass(frozen=True)
class Row:
    """Say of one row what can be said. A side that lacks the row is None."""

    key: Key
    a: Measurement | None
    b: Measurement | None
    verdict: str
    ratio: float | None
    p: float | None
    p_adjusted: float | None
    note: str


@dataclass(frozen=True)
class Summary:
    """Sum up rows: the geometric mean of their ratios, and how many got each verdict."""

    name: str
    geometric_mean: float | None
    counts: Mapping[str, int]


@dataclass(frozen=True)
class States:
    """Name an operator and how far it got on each side."""

    operator: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """Hold all that was found. ``rows`` begin with the slower ones, the largest ratio first.

    ``unmeasured`` operators lack rows on a side; ``ended`` ones have rows on both, and other
    statuses.
    ``repeats`` is None where no row lacks samples; else it is how many repeats on both sides
    could tell one changed row among all that were compared.
    """

    threshold: float
    alpha: float
    unknown: tuple[str, ...]
    differences: tuple[Difference, ...]
    rows: tuple[Row, ...]
    operators: tuple[Summary, ...]
    overall: Summary
    unmeasured: tuple[States, ...]
    ended: tuple[States, ...]
    repeats: int | None

    def of(self, *verdicts: str) -> tuple[Row, ...]:
        """List the rows with one of these verdicts, in order."""
        return tuple(row for row in self.rows if row.verdict in verdicts)


def threshold(text: str) -> float:
    """Read '5%', '5 %' or '0.05' as 0.05; raise CompareError for what is no share below 1."""
    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(%?)\s*", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else math.nan
    if not 0 <= value < 1:
        raise CompareError(
            "--threshold: expected a share from 0 % to below 100 %, written like 5% or 0.05, "
            f"found {text!r}"
        )
    return value


@dataclass(frozen=True)
class _Rule:
    """Say what counts as a change: from which share on, at which level, among how many tests."""

    threshold: float
    alpha: float
    tests: int


def compare(a: Results, b: Results, threshold: float = 0.05, alpha: float = ALPHA) -> Comparison:
    """Match rows by their keys, which ``lookup.pair`` aligns, and judge each at level alpha."""
    keys = [*a.rows, *(key for key in b.rows if key not in a.rows)]
    cells = [(a.rows.get(key), b.rows.get(key)) for key in keys]
    pairs = [(_measurement(left), _measurement(right)) for left, right in cells]
    tests = tested(_testable(pairs), alpha)
    states, rule = (_states(a), _states(b)), _Rule(threshold, alpha, len(tests))
    rows = [
        _one_sided(key, left, right, *states)
        if left is None or right is None
        else _matched(key, left, right, tests.get(index), _remarks(*cells[index]), rule)
        for index, (key, (left, right)) in enumerate(zip(keys, pairs))
    ]
    return Comparison(
        threshold=threshold,
        alpha=alpha,
        unknown=tuple(unknown(a, b)),
        differences=tuple(differences(a, b)),
        rows=tuple(sorted(rows, key=_importance)),
        operators=tuple(_by_operator(rows)),
        overall=_summary("overall", rows),
        unmeasured=tuple(_unmeasured(a, b, *states)),
        ended=tuple(_ended(a, b, *states)),
        repeats=_repeats(rows, alpha),
    )


def _testable(
    pairs: Iterable[tuple[Measurement | None, Measurement | None]],
) -> Iterable[tuple[int, Sequence[float], Sequence[float]]]:
    for index, (a, b) in enumerate(pairs):
        if a and b and not (a.problem or b.problem):
            yield index, a.samples, b.samples


def _measurement(cells: Cells | None) -> Measurement | None:
    if cells is None:
        return None
    text = cells.get("latency_ms") or ""
    latency, mad = _number(text), _number(cells.get("latency_mad_ms") or "")
    if not is_latency(latency):
        return Measurement(None, mad, (), f"latency {text or 'missing'}")
    assert latency is not None
    samples = _samples(cells.get("latencies_ms") or "", latency)
    problem = "" if samples else "latencies_ms is no JSON list of latencies"
    return Measurement(latency, mad, samples, problem)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _samples(text: str, latency: float) -> tuple[float, ...]:
    """Return every repeat's latency; an older file has one, the row's. Nothing if unreadable."""
    if not text:
        return (latency,)
    try:
        found = json.loads(text)
        return tuple(map(float, found)) if all(map(is_latency, found)) else ()
    except (ValueError, TypeError, OverflowError):
        return ()


def _matched(
    key: Key,
    a: Measurement,
    b: Measurement,
    test: RankTest | None,
    remarks: Sequence[str],
    rule: _Rule,
) -> Row:
    verdict, reason = _verdict(a, b, test, rule)
    return Row(
        key=key,
        a=a,
        b=b,
        verdict=verdict,
        ratio=_ratio(a.latency_ms, b.latency_ms),
        p=test.p if test else None,
        p_adjusted=test.p_adjusted if test else None,
        note="; ".join(filter(None, (reason, *remarks))),
    )


def _ratio(a: float | None, b: float | None) -> float | None:
    ratio = b / a if a and b else None
    return ratio if is_latency(ratio) else None  # what floats cannot hold is unknown


def _verdict(a: Measurement, b: Measurement, test: RankTest | None, rule: _Rule) -> tuple[str, str]:
    problems = [f"{side}: {m.problem}" for side, m in (("A", a), ("B", b)) if m.problem]
    if problems:
        return CANNOT_TELL, "; ".join(problems)
    if test is None:
        return CANNOT_TELL, f"{len(a.samples)} and {len(b.samples)} samples: too few"
    direction = _direction(a.latency_ms, b.latency_ms, rule.threshold)
    if direction == 0:
        return SAME, ""
    if test.p_adjusted > rule.alpha:
        return CANNOT_TELL, _noise(a, b, test, rule)
    if direction * test.lean < 0:
        return CANNOT_TELL, "the medians say one thing, the ranks another"
    return (SLOWER if direction > 0 else FASTER), ""


def _noise(a: Measurement, b: Measurement, test: RankTest, rule: _Rule) -> str:
    """Say why a difference is not significant: by itself, or only among so many rows."""
    counts = len(a.samples), len(b.samples)
    if test.p > rule.alpha:
        return NOISE
    if test.p > reachable(*counts):
        return f"{NOISE}: among {rule.tests} rows some look like this"
    return f"{counts[0]} and {counts[1]} samples: too few for one changed row among {rule.tests}"


def _direction(a: float | None, b: float | None, threshold: float) -> int:
    """Return 1 where B is slower beyond the threshold, -1 where it is faster, else 0.

    Multiplied, not divided: exchanging A and B must not change what rounding decides.
    """
    assert a is not None and b is not None
    return int(b >= a * (1 + threshold)) - int(a >= b * (1 + threshold))


def _remarks(a: Cells | None, b: Cells | None) -> Sequence[str]:
    """Say where the work is known and differs, and of each side why it cannot be relied on."""
    assert a is not None and b is not None
    pairs = [(name, a.get(name), b.get(name)) for name in ("logical_flop", "logical_bytes")]
    work = [f"{name}: A {x}, B {y}" for name, x, y in pairs if x and y and x != y]
    return [*work, *_doubts("A", a), *_doubts("B", b)]


def _doubts(side: str, cells: Cells) -> list[str]:
    return [f"{side} {part}" for part in marked(cells.get("note") or "", UNSTABLE, SUSPECT)]


def _one_sided(
    key: Key,
    a: Measurement | None,
    b: Measurement | None,
    states_a: Mapping[str, str],
    states_b: Mapping[str, str],
) -> Row:
    name, states = ("B", states_b) if b is None else ("A", states_a)
    verdict = ONLY_A if b is None else ONLY_B
    note = f"{name}: {states.get(key[1], ABSENT)}"
    return Row(key, a, b, verdict, None, None, None, note)


def _states(results: Results) -> dict[str, str]:
    """Say of each operator how many rows it has, and its status where that tells more."""
    counts = Counter(key[1] for key in results.rows)
    states = {}
    for operator in dict.fromkeys([*counts, *results.coverage]):
        status = _status(results.coverage.get(operator, {}), counts[operator])
        rows = f"{counts[operator]} row{'s' if counts[operator] != 1 else ''}"
        states[operator] = ", ".join(filter(None, (rows if counts[operator] else "", status)))
    return states


def _status(line: Mapping[str, str], rows: int) -> str:
    status, reason = line.get("status") or "", line.get("reason") or ""
    if rows and status == "PASSED":
        return ""
    return f"{status}: {reason}" if reason else status


def _unmeasured(
    a: Results, b: Results, states_a: Mapping[str, str], states_b: Mapping[str, str]
) -> Iterable[States]:
    measured = _measured_operators(a, b)
    for operator in dict.fromkeys([*states_a, *states_b]):
        if operator not in measured:
            yield States(operator, states_a.get(operator, ABSENT), states_b.get(operator, ABSENT))


def _ended(
    a: Results, b: Results, states_a: Mapping[str, str], states_b: Mapping[str, str]
) -> Iterable[States]:
    """Name what lost or gained repeats or cases, which the rows alone may not show."""
    for operator in _measured_operators(a, b):
        left, right = (side.coverage.get(operator, {}).get("status") for side in (a, b))
        if left and right and left != right:
            yield States(operator, states_a[operator], states_b[operator])


def _measured_operators(a: Results, b: Results) -> dict[str, None]:
    """Name the operators with rows on both sides, in order."""
    others = {key[1] for key in b.rows}
    return {key[1]: None for key in a.rows if key[1] in others}


def _importance(row: Row) -> tuple[int, float]:
    change = -abs(math.log(row.ratio)) if row.ratio else math.inf
    return VERDICTS.index(row.verdict), change


def _by_operator(rows: Iterable[Row]) -> list[Summary]:
    """Sum up each operator, the one that slowed down most first."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.key[1]].append(row)
    found = [_summary(operator, group) for operator, group in groups.items()]
    return sorted(found, key=lambda summary: -(summary.geometric_mean or 0.0))


def _summary(name: str, rows: Sequence[Row]) -> Summary:
    logarithms = [math.log(row.ratio) for row in rows if row.ratio]
    mean = math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None
    counts = Counter(row.verdict for row in rows)
    return Summary(name, mean, {verdict: counts[verdict] for verdict in VERDICTS})


def _repeats(rows: Sequence[Row], alpha: float) -> int | None:
    """Return enough repeats for all rows, if some row could not be told for want of them."""
    compared = [row for row in rows if row.ratio]
    short = any(
        row.verdict == CANNOT_TELL
        and row.a is not None
        and row.b is not None
        and not (row.a.problem or row.b.problem)
        and reachable(len(row.a.samples), len(row.b.samples)) > alpha / len(compared)
        for row in compared
    )
    return enough_repeats(len(compared), alpha) if short else None

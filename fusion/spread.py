"""Say how far latencies can be trusted: their spread, the clock, and who else used the CPUs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fusion import state
from fusion.outcome import Outcome

# The spread over repeats from which on a row is unstable, in percent; pyperf warns from there on.
WIDEST_PCT = 10.0
# Steps of the clock that a latency must last: one step is then at most 1 % of it.
FEWEST_STEPS = 100
# The share of its CPUs' time, gone to others or lost to a quota, from which on a row is unstable.
LARGEST_FOREIGN_SHARE = 0.1
# Decimals beyond which a difference from a limit is rounding.
_DECIMALS = 9


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return float(statistics.median(values))


def absolute_deviation(values: Sequence[float]) -> float | None:
    """Return the median absolute deviation from the median; None for a single value."""
    if len(values) < 2:
        return None
    middle = median(values)
    return median([abs(value - middle) for value in values])


def percent(values: Sequence[float]) -> float | None:
    """Return the spread in percent; None for a single value.

    The larger of the standard deviation over the mean, which sees a single outlier, and of the
    median absolute deviation over the median, which is what the row shows.
    """
    deviation = absolute_deviation(values)
    if deviation is None:
        return None
    relative = statistics.stdev(values) / statistics.fmean(values)
    return 100 * max(relative, deviation / median(values))


def too_wide(values: Sequence[float]) -> str | None:
    """Say that the spread over repeats is 10 % or more; None when it is not."""
    found = percent(values)
    if found is None or round(found, _DECIMALS) < WIDEST_PCT:
        return None
    return f"spread of {found:.3g} % over {len(values)} repeats"


def too_short(latency_ms: float, step_seconds: float | None) -> str | None:
    """Say that a latency is under what the clock resolves to 1 %; None when it is not."""
    if step_seconds is None or latency_ms >= FEWEST_STEPS * step_seconds * 1e3:
        return None
    return (
        f"{latency_ms * 1e6:.3g} ns is under what the clock can resolve to 1 % "
        f"(its step is {step_seconds * 1e9:.3g} ns)"
    )


def disturbed(outcomes: Iterable[Outcome]) -> str | None:
    """Say that 10 % or more of the CPUs' time went to others in a repeat; None when it did not."""
    share = _too_large(map(foreign_share, outcomes))
    return share and f"{share} of its CPUs' time went to others"


def throttled(outcomes: Iterable[Outcome]) -> str | None:
    """Say that a control group's limit stopped a child for 10 % of its CPUs' time or more."""
    share = _too_large(map(throttled_share, outcomes))
    return share and f"a CPU quota stopped it for {share} of its CPUs' time"


def throttled_share(ended: Outcome) -> float | None:
    """Return for which share of its CPUs' time an operator was stopped by a CPU quota."""
    before, after = ended.before or {}, ended.after or {}
    first, last = (each.get("throttled_seconds") for each in (before, after))
    if first is None or last is None or not before.get("cpus"):
        return None
    wall = _seconds_between(before, after)
    return float(last - first) / (wall * before["cpus"]) if wall > 0 else None


def _too_large(shares: Iterable[float | None]) -> str | None:
    """Write the largest known share in percent; None where it is within the limit."""
    largest = max((share for share in shares if share is not None), default=0.0)
    if round(largest, _DECIMALS) < LARGEST_FOREIGN_SHARE:
        return None
    return f"{100 * largest:.3g} %"


def _seconds_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    start, end = (datetime.fromisoformat(each["when"]) for each in (before, after))
    return (end - start).total_seconds()


def foreign_share(ended: Outcome) -> float | None:
    """Return which share (0 to 1) of its CPUs' time others had while an operator was measured."""
    before, after = ended.before, ended.after
    if before is None or after is None:
        return None
    return state.foreign_share(
        before,
        after,
        after.get("own_seconds"),
        _seconds_between(before, after),
        before.get("cpus") or 0,
    )

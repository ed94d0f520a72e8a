"""The spread of repeated latencies, and when it or the clock makes them unstable."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

# The spread over repeats from which on a row is unstable, in percent; pyperf warns from there on.
WIDEST_PCT = 10.0


# Steps of the clock that a latency must last: one step is then at most 1 % of it.
FEWEST_STEPS = 100


# Decimals beyond which a difference from a limit is rounding.
DECIMALS = 9


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
    if found is None or round(found, DECIMALS) < WIDEST_PCT:
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

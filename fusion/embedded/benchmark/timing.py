"""Time a call: how often to repeat it, and what the samples amount to. Times in milliseconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

FEWEST = 3
# The finest step of the clock, so that a latency is never zero.
_TICK = time.get_clock_info("perf_counter").resolution * 1e3


def measure(
    call: Callable[[], object],
    prepare: Callable[[], None],
    warm_up: float,
    repetition: float,
    median: bool,
) -> float:
    """Return the median or the mean of repeated calls, each after an untimed ``prepare``."""
    estimate = statistics.median(_warmed(call, prepare, warm_up))
    repeats = max(FEWEST, int(repetition / estimate))
    samples = [_timed(call, prepare) for _ in range(repeats)]
    return statistics.median(samples) if median else statistics.fmean(samples)


def _warmed(call: Callable[[], object], prepare: Callable[[], None], budget: float) -> list[float]:
    """Call until the budget is spent, at least once, and return the samples."""
    samples = [_timed(call, prepare)]
    left = budget - samples[0]
    while left > 0:
        samples.append(_timed(call, prepare))
        left -= samples[-1]
    return samples


def _timed(call: Callable[[], object], prepare: Callable[[], None]) -> float:
    prepare()
    start = time.perf_counter()
    kept = call()
    elapsed = time.perf_counter() - start
    del kept
    return max(elapsed * 1e3, _TICK)

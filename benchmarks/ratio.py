"""Compare two ways of doing something in one run: alternately, by their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Hold the paired seconds of both sides."""

    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def median(self) -> float:
        """Return the median of ours over the median of theirs."""
        return statistics.median(self.ours) / statistics.median(self.theirs)

    def line(self, name: str, limit: float | None = None) -> str:
        """Write the ratio with both medians and the spread of the pairs."""
        pairs = sorted(ours / theirs for ours, theirs in zip(self.ours, self.theirs))
        bound = "" if limit is None else f", limit {limit:g}"
        return (
            f"{name}: {self.median:.3f}{bound} (medians {statistics.median(self.ours):.4g} s and "
            f"{statistics.median(self.theirs):.4g} s, pairs {pairs[0]:.3f} to {pairs[-1]:.3f}, "
            f"{len(pairs)} pairs)"
        )


def alternate(ours: Callable[[], object], theirs: Callable[[], object], pairs: int) -> Ratio:
    """Time both in turn after one uncounted pair, so that drift of the machine meets both."""
    measured: list[tuple[float, float]] = []
    for index in range(pairs + 1):
        pair = (seconds(ours), seconds(theirs))
        if index:
            measured.append(pair)
    return Ratio([first for first, _ in measured], [second for _, second in measured])


def seconds(act: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start

"""Tell a change from noise: rank tests of independent samples, corrected for many rows.

NumPy is imported when something is tested; SciPy, whose import takes longer than judging 10,000
rows, only for the normal approximation of many samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ALPHA = 0.05
# An exact null distribution with ties costs the square of (smaller side x all samples).
_EXACT_WITH_TIES = 300
_EXACT_WITHOUT_TIES = 100


@dataclass(frozen=True)
class RankTest:
    """Hold a two-sided rank test; ``lean`` is positive where B's ranks are the higher ones."""

    p: float
    p_adjusted: float
    lean: float


def reachable(n: int, m: int) -> float:
    """Return the smallest two-sided p that a rank test of n against m samples can give."""
    return min(1.0, 2 / math.comb(n + m, n))


def enough_repeats(rows: int, alpha: float = ALPHA) -> int:
    """Return how many repeats on both sides can tell one changed row among so many."""
    n = 1
    while reachable(n, n) > alpha / rows:
        n += 1
    return n


def tested(
    pairs: Iterable[tuple[int, Sequence[float], Sequence[float]]], alpha: float = ALPHA
) -> dict[int, RankTest]:
    """Test the pairs (index, A's samples, B's samples) that have enough samples, by index.

    The adjusted p is corrected for their number by Benjamini and Hochberg.
    """
    groups = defaultdict(list)
    for pair in pairs:
        counts = len(pair[1]), len(pair[2])
        if reachable(*counts) <= alpha:
            groups[counts].append(pair)
    if not groups:
        return {}
    import numpy as np

    indices = [index for group in groups.values() for index, _, _ in group]
    parts = [
        rank_test([a for _, a, _ in group], [b for _, _, b in group]) for group in groups.values()
    ]
    p, lean = (np.concatenate(values) for values in zip(*parts))
    found = zip(p.tolist(), _adjusted(p).tolist(), lean.tolist())
    return {index: RankTest(*values) for index, values in zip(indices, found)}


def rank_test(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> tuple[Any, Any]:
    """Test rows of equal counts by Mann and Whitney; return two-sided p, and where B leans.

    The distribution of the rank sum is counted exactly, once for every pattern of ties: SciPy's
    exact one is wrong for ties, its normal approximation goes below what few samples can reach,
    and its permutations take a second for 2,000 rows. Many samples get SciPy's approximation,
    corrected for ties. No p is below ``reachable``, which ties in a large and a small side would
    bring about.
    """
    import numpy as np

    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    n, m = left.shape[1], right.shape[1]
    doubled, untied = _doubled_ranks(np.concatenate([left, right], axis=1))
    tied = (np.sort(doubled, axis=1) != untied).any(axis=1)
    counted = tied & (min(n, m) * (n + m) <= _EXACT_WITH_TIES)
    exact = ~tied & (n + m <= _EXACT_WITHOUT_TIES)
    smaller = (doubled[:, :n] if n <= m else doubled[:, n:]).sum(axis=1)
    p = np.ones(len(doubled))
    if exact.any():
        p[exact] = _two_sided(tuple(untied.tolist()), min(n, m), smaller[exact])
    for index in np.flatnonzero(counted):
        pattern = tuple(sorted(doubled[index].tolist()))
        p[index] = _two_sided(pattern, min(n, m), smaller[index])
    many = ~exact & ~counted
    if many.any():
        from scipy.stats import mannwhitneyu

        p[many] = mannwhitneyu(left[many], right[many], axis=1, method="asymptotic").pvalue
    lean = doubled[:, n:].sum(axis=1) / 2 - m * (n + m + 1) / 2
    return np.clip(p, reachable(n, m), 1.0), lean


def _doubled_ranks(values: Any) -> tuple[Any, Any]:
    """Rank the values of each row, equal ones by their mean; return twice the ranks, as integers.

    Also return what a row without ties has in order: 2, 4, 6, ...
    """
    import numpy as np

    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    places = np.arange(values.shape[1])
    differ = ordered[:, 1:] != ordered[:, :-1]
    first, last = np.zeros_like(order), np.full_like(order, places[-1])
    first[:, 1:] = np.where(differ, places[1:], 0)
    last[:, :-1] = np.where(differ, places[:-1], places[-1])
    first = np.maximum.accumulate(first, axis=1)
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    doubled = np.empty_like(order)
    np.put_along_axis(doubled, order, first + last + 2, axis=1)
    return doubled, 2 * places + 2


def _adjusted(p: Any) -> Any:
    """Correct p for their number by Benjamini and Hochberg."""
    import numpy as np

    order = np.argsort(p)
    shares = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(shares[::-1])[::-1])
    return adjusted


def _two_sided(ranks: tuple[int, ...], chosen: int, totals: Any) -> Any:
    """Double the smaller tail of these sums of so many of the ranks, over all ways to choose."""
    import numpy as np

    at_most, at_least = _tails(ranks, chosen)
    return np.minimum(1.0, 2 * np.minimum(at_most[totals], at_least[totals]))


@lru_cache(maxsize=4096)
def _tails(ranks: tuple[int, ...], chosen: int) -> tuple[Any, Any]:
    """Return the chance of at most, and of at least, each sum of so many of these ranks."""
    import numpy as np

    ways = np.zeros((chosen + 1, sum(ranks[-chosen:]) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    all_ways = math.comb(len(ranks), chosen)
    return ways[-1].cumsum() / all_ways, ways[-1][::-1].cumsum()[::-1] / all_ways

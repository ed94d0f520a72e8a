"""Tell a change from noise: rank tests of independent samples, corrected for many rows.

SciPy is imported when something is tested, since importing it takes longer than most tasks.
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
    from scipy.stats import false_discovery_control

    indices = [index for group in groups.values() for index, _, _ in group]
    parts = [
        rank_test([a for _, a, _ in group], [b for _, _, b in group]) for group in groups.values()
    ]
    p, lean = (np.concatenate(values) for values in zip(*parts))
    adjusted = false_discovery_control(p)
    found = zip(p.tolist(), adjusted.tolist(), lean.tolist())
    return {index: RankTest(*values) for index, values in zip(indices, found)}


def rank_test(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> tuple[Any, Any]:
    """Test rows of equal counts by Mann and Whitney; return two-sided p, and where B leans.

    Without ties p is exact, by SciPy. SciPy's exact distribution is wrong for ties, its normal
    approximation goes below what few samples can reach, and its permutations take a second for
    2,000 rows; so with ties the exact distribution of the midranks is counted here, once for
    every pattern of ties. Many samples get the normal approximation, corrected for ties. No p is
    below ``reachable``, which ties in a large and a small side would bring about.
    """
    import numpy as np
    from scipy.stats import mannwhitneyu, rankdata

    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    n, m = left.shape[1], right.shape[1]
    ranks = rankdata(np.concatenate([left, right], axis=1), axis=1)
    tied = (np.diff(np.sort(ranks, axis=1), axis=1) == 0).any(axis=1)
    counted = tied & (min(n, m) * (n + m) <= _EXACT_WITH_TIES)
    exact = ~tied & (n + m <= _EXACT_WITHOUT_TIES)
    p = np.ones(len(ranks))
    for chosen, method in ((exact, "exact"), (~exact & ~counted, "asymptotic")):
        if chosen.any():
            p[chosen] = mannwhitneyu(left[chosen], right[chosen], axis=1, method=method).pvalue
    for index in np.flatnonzero(counted):
        p[index] = _with_ties(ranks[index], n)
    lean = ranks[:, n:].sum(axis=1) - m * (n + m + 1) / 2
    return np.clip(p, reachable(n, m), 1.0), lean


def _with_ties(ranks: Any, n: int) -> float:
    """Double the smaller tail of the smaller side's sum of midranks, over all its choices."""
    doubled = (2 * ranks).astype(int)
    side = doubled[:n] if 2 * n <= len(doubled) else doubled[n:]
    at_most, at_least = _tails(tuple(sorted(doubled.tolist())), len(side))
    total = side.sum()
    return min(1.0, 2 * float(min(at_most[total], at_least[total])))


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

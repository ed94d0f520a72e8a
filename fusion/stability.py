"""Which share of its CPUs' time an operator lost while it was measured, and when that is much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from fusion import state
from fusion.outcome import Outcome
from fusion.stats.spread import DECIMALS

# The share of its CPUs' time, gone to others or lost to a quota, from which on a row is unstable.
LARGEST_FOREIGN_SHARE = 0.1


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
    if round(largest, DECIMALS) < LARGEST_FOREIGN_SHARE:
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

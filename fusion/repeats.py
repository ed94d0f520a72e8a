"""Know which repeats of an operator are still to be measured: plan minus done, from the disk."""

from __future__ import annotations

from fusion import files
from fusion.journal import Journal
from fusion.outcome import RESULTS


def owed(kept: Journal, operator: str, repeat: int) -> list[int]:
    """List the repeats, of ``repeat`` in all, that have no outcome.

    Those after the first are owed only where the first measured something: what failed, crashed or
    was skipped once is not waited for again.
    """
    missing = [index for index in range(repeat) if not kept.is_done(operator, index)]
    if 0 in missing:
        return missing
    return missing if missing and status(kept, operator, 0) in RESULTS else []


def done(kept: Journal, operator: str, repeat: int) -> list[int]:
    """List the repeats that have an outcome."""
    return [index for index in range(repeat) if kept.is_done(operator, index)]


def status(kept: Journal, operator: str, index: int) -> str | None:
    """Return how a repeat ended, None where it has no readable outcome."""
    try:
        found = files.read_json(kept.outcome(operator, index))
    except files.FileError:
        return None
    return found.get("status") if isinstance(found, dict) else None

"""Decide whether a comparison passes: which rows count as failures for ``--fail-on``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusion.comparison.verdict import (
    CANNOT_TELL,
    FASTER,
    SLOWER,
    CompareError,
    Comparison,
    Row,
)
from fusion.text import nearest

MISSING, UNTOLD = "missing", "untold"
FAILURES = (SLOWER, FASTER, MISSING, UNTOLD)


def fail_on(texts: Iterable[str]) -> tuple[str, ...]:
    """Read lists of what counts as a failure; raise CompareError for an unknown name or none."""
    texts = tuple(texts)
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if texts and not names:
        raise CompareError(f"--fail-on: expected names among {', '.join(FAILURES)}, found none")
    for name in names:
        if name not in FAILURES:
            raise CompareError(
                f"--fail-on: expected names among {', '.join(FAILURES)}, found {name!r}"
                f"{nearest(name, FAILURES)}"
            )
    return tuple(dict.fromkeys(names))


def failures(comparison: Comparison, names: Iterable[str]) -> tuple[Row, ...]:
    """List the rows that count as failures.

    ``missing`` is what A measured and B did not, ``untold`` what nobody can tell.
    """
    wanted = {CANNOT_TELL if name == UNTOLD else name for name in names}
    return tuple(
        row
        for row in comparison.rows
        if row.verdict in wanted or (MISSING in wanted and _is_missing(row))
    )


def _is_missing(row: Row) -> bool:
    measured = row.a is not None and not row.a.problem
    return measured and (row.b is None or bool(row.b.problem))


def told(comparison: Comparison, names: Sequence[str]) -> str:
    """Say in one line what fails by ``--fail-on``, and what it does not ask for."""
    counts = {name: len(failures(comparison, (name,))) for name in FAILURES}
    asked = ", ".join(f"{counts[name]} {name}" for name in names)
    others = [name for name in (MISSING, UNTOLD) if name not in names]
    ignored = ", ".join(f"{counts[name]} {name}" for name in others if counts[name])
    failed = any(counts[name] for name in names)
    compared = sum(row.ratio is not None for row in comparison.rows)
    return (
        f"--fail-on {','.join(names)}: {'failed' if failed else 'passed'}, {asked}; "
        f"rows compared: {compared}"
        f"{f'; not asked for: {ignored}' if ignored else ''}"
    )

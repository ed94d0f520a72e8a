"""Read and write lists of CPUs and nodes as the kernel does: ``0-3,8``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from fusion.errors import Refusal

# Five digits hold every number a kernel can give, and keep a typing error from filling memory.
_SPAN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class CpuListError(Refusal):
    """Refuse a text that is not a list of numbers and ranges."""


def parse(text: str) -> tuple[int, ...]:
    """Return the numbers of a list in the order written, repetitions kept; none for blank text.

    Raise CpuListError for anything but numbers and ascending ranges between commas.
    """
    if not text.strip():
        return ()
    return tuple(number for part in text.split(",") for number in _span(part.strip(), text))


def render(numbers: Iterable[int]) -> str:
    """Write numbers as the shortest list, ascending and each once; '' for none."""
    ordered = enumerate(sorted(set(numbers)))
    runs = [[number for _, number in run] for _, run in groupby(ordered, lambda at: at[1] - at[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _span(part: str, text: str) -> range:
    found = _SPAN.fullmatch(part)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if last < first:
        raise CpuListError(
            f"CPU list {text.strip()!r}: expected numbers and ascending ranges such as 0-3,8, "
            f"found {part!r}"
        )
    return range(first, last + 1)

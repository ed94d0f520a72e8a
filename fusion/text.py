"""Short texts: one line of a given width, a number with its unit, the nearest known name."""

from __future__ import annotations

import difflib
import math
from typing import Iterable


def shortened(text: str, width: int) -> str:
    """Put a text on one line of at most ``width`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def number(value: float | None, unit: str = "") -> str:
    """Write four significant digits and a unit; '-' for an unknown."""
    if value is None:
        return "-"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if 0 < abs(value) < 1e4 else 0
    text = f"{value:.{min(digits, 6)}f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ' (did you mean x?)' for the known name nearest to an unknown one, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""

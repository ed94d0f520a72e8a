"""Choose how large the arrays are, from the machine's caches and memory."""

from __future__ import annotations

import re
from pathlib import Path

MIB = 1 << 20
SMALLEST, LARGEST = 128 * MIB, 1024 * MIB
# A baseline's temporaries and the copies of the check take a few times the arguments.
MEMORY_SHARE = 8
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def beyond_cache() -> int:
    """Return the bytes of the large case: four last-level caches, within what memory allows."""
    wanted = min(max(4 * last_level_cache(), SMALLEST), LARGEST)
    free = available_memory()
    return wanted if free is None else max(MIB, min(wanted, free // MEMORY_SHARE))


def rows_beyond_cache(*widths: int, itemsize: int) -> int:
    """Return how many rows fill the large case when a row holds arrays of those widths."""
    return max(1, -(-beyond_cache() // (sum(widths) * itemsize)))


def last_level_cache(folder: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the bytes of the largest data cache of any CPU, 0 where the system hides them."""
    caches = folder.glob("cpu[0-9]*/cache/index[0-9]*")
    return max((_size(_text(cache / "size")) for cache in caches if _holds_data(cache)), default=0)


def available_memory() -> int | None:
    """Return the bytes that can still be had, or None where the system does not say."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(Path("/proc/meminfo")), re.M)
    limits = [int(text) for text in map(_text, map(Path, _LIMITS)) if text.isdigit()]
    return min([*([int(found[1]) * 1024] if found else []), *limits], default=None)


def _holds_data(cache: Path) -> bool:
    return _text(cache / "type") != "Instruction"


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""Work through arrays block by block, on several threads, with scratch that stays in cache."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from math import prod
from typing import Any

import numpy as np

from . import threads

# Elements of one block: 128 KiB in float32, so that an operator's few scratch arrays share a
# core's second-level cache, while the work of a block outweighs the cost of calling NumPy.
BLOCK = 32 * 1024

_local = threading.local()


def scratch(slot: int, shape: tuple[int, ...]) -> Any:
    """Return this thread's float32 buffer of that slot; its content is whatever was left there."""
    buffers = _local.__dict__.setdefault("buffers", {})
    size = prod(shape)
    if slot not in buffers or buffers[slot].size < size:
        buffers[slot] = np.empty(max(size, BLOCK), np.float32)
    return buffers[slot][:size].reshape(shape)


def loaded(x: Any, slot: int) -> Any:
    """Return a block in float32: itself, or a copy in the scratch slot."""
    if x.dtype == np.float32:
        return x
    copy = scratch(slot, x.shape)
    np.copyto(copy, x)
    return copy


def elements(work: Callable[..., None], *arrays: Any) -> None:
    """Call ``work`` on matching blocks of C-contiguous arrays of one size, seen as flat."""
    flat = [array.reshape(-1) for array in arrays]
    ranges(lambda span: work(*(array[span] for array in flat)), flat[0].size, BLOCK)


def rows(work: Callable[..., None], *arrays: Any) -> None:
    """Call ``work`` on matching blocks of the arrays' first axis, cut to the widest array."""
    count = arrays[0].shape[0]
    widest = max(array.size for array in arrays) // max(1, count)
    ranges(lambda span: work(*(array[span] for array in arrays)), count, BLOCK // max(1, widest))


def ranges(work: Callable[[slice], None], count: int, step: int) -> None:
    """Call ``work`` on every slice of ``range(count)`` of at most ``step``, in parallel shares."""
    step = max(1, step)
    starts = range(0, count, step)
    each([slice(start, min(start + step, count)) for start in starts], work)


def each(items: list[Any], work: Callable[[Any], None]) -> None:
    """Call ``work`` on every item; each thread takes one contiguous share of them."""
    workers = min(len(items), threads.count())
    if workers < 2:
        _walk(items, work)
        return
    bounds = [len(items) * share // workers for share in range(workers + 1)]
    shares = [items[low:high] for low, high in zip(bounds, bounds[1:])]
    others = [_pool(workers - 1).submit(_walk, share, work) for share in shares[1:]]
    try:
        _walk(shares[0], work)
    finally:
        wait(others)
    for other in others:
        other.result()


def _walk(items: list[Any], work: Callable[[Any], None]) -> None:
    for item in items:
        work(item)


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="block")

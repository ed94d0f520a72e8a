"""Benchmark attention: whole score matrices against blocks of query rows."""

import math

import numpy as np
import pytest

from . import base, blocks, sizes

HEADS, HEAD_DIM, LENGTH = 8, 64, 128
# Elements of a block's scores; more than elsewhere, since a matrix product gains from rows.
SCORES = 2 * blocks.BLOCK
# Below every score, yet finite: the difference of two infinities is no number.
FLOOR = np.float32(-1e30)


class FlashAttentionForwardBenchmark(base.Benchmark):
    """Measure over FlagGems' tuples.

    (batch, heads, key heads, query length, key length, head size, causal, dropout, debug mask,
    left window, right window, alibi), of which the last six may be left out.
    """

    def accepts(self, shape):
        """Take six to twelve entries."""
        return 6 <= len(shape) <= 12

    def core_shapes(self, itemsize):
        """Return causal, grouped and windowed cases and one well beyond the caches."""
        sequence = 4 * HEADS * LENGTH * HEAD_DIM
        large = sizes.rows_beyond_cache(sequence, itemsize=itemsize)
        return [
            (1, HEADS, HEADS, 512, 512, HEAD_DIM, True),
            (1, HEADS, 2, 256, 512, HEAD_DIM, False, 0.0, False, 128, 0),
            (large, HEADS, HEADS, LENGTH, LENGTH, HEAD_DIM, False),
        ]

    def more_shapes(self, itemsize):
        """Return one query against many keys, and odd lengths with more queries than keys."""
        return [
            (1, 4, 1, 1, 1024, 128, True),
            (2, 4, 2, 65, 33, 32, True),
        ]

    def input_fn(self, shape, dtype):
        """Make (q, k, v, scale, is_causal, dropout_p, return_debug_mask, windows)."""
        batch, heads, key_heads, queries, keys, dim, *rest = shape
        defaults = (False, 0.0, False, None, None, False)
        causal, dropout, debug, left, right, alibi = (*rest, *defaults[len(rest) :])
        if dropout or debug or alibi:
            raise ValueError(f"dropout, debug mask and alibi are not available: {list(shape)}")
        q = base.normal((batch, queries, heads, dim), dtype, seed=1)
        k = base.normal((batch, keys, key_heads, dim), dtype, seed=2)
        v = base.normal((batch, keys, key_heads, dim), dtype, seed=3)
        windows = {"window_size_left": left, "window_size_right": right}
        given = {} if left is None and right is None else windows
        yield q, k, v, 1 / math.sqrt(dim), bool(causal), dropout, debug, given


def whole(
    q,
    k,
    v,
    scale,
    is_causal,
    dropout_p=0.0,
    return_debug_mask=False,
    window_size_left=None,
    window_size_right=None,
):
    """Return softmax(q k^T scale + mask) v as whole-array expressions."""
    group = q.shape[2] // k.shape[2]
    heads_first = [x.astype(np.float32, copy=False).transpose(0, 2, 1, 3) for x in (q, k, v)]
    queries, keys, values = heads_first
    keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
    scores = queries @ keys.swapaxes(-1, -2) * np.float32(scale)
    rows, columns = np.arange(q.shape[1]), np.arange(k.shape[1])
    first, last = bounds(rows, q, k, is_causal, window_size_left, window_size_right)
    seen = (columns >= first[:, None]) & (columns <= last[:, None])
    scores = np.where(seen, scores, -np.inf)
    powers = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), FLOOR))
    total = np.maximum(powers.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    out = (powers / total) @ values
    return np.ascontiguousarray(out.transpose(0, 2, 1, 3)).astype(q.dtype, copy=False)


def bounds(rows, q, k, is_causal, left, right):
    """Return the first and the last key that each query sees, both aligned to the right."""
    diagonal = rows + k.shape[1] - q.shape[1]
    right = 0 if is_causal else right
    first = np.zeros_like(rows) if unbounded(left) else np.maximum(diagonal - left, 0)
    end = np.full_like(rows, k.shape[1] - 1)
    last = end if unbounded(right) else np.minimum(diagonal + right, end)
    return first, last


def unbounded(side):
    """Tell whether a side of the window is open."""
    return side is None or side < 0


def blocked(
    q,
    k,
    v,
    scale,
    is_causal,
    dropout_p=0.0,
    return_debug_mask=False,
    window_size_left=None,
    window_size_right=None,
):
    """Return attention by blocks of queries, each against no more keys than its mask leaves."""
    out = np.zeros_like(q)
    group, step = q.shape[2] // k.shape[2], max(16, SCORES // k.shape[1])
    first, last = bounds(
        np.arange(q.shape[1]), q, k, is_causal, window_size_left, window_size_right
    )

    def work(item):
        batch, head, rows = item
        low, high = first[rows].min(), last[rows].max() + 1
        if low < high:
            keys = slice(low, high)
            seen = first[rows] - low, last[rows] - low
            at = (batch, rows, head), (batch, keys, head // group)
            attend(q[at[0]], k[at[1]], v[at[1]], scale, seen, out[at[0]])

    items = [
        (batch, head, slice(start, start + step))
        for batch in range(q.shape[0])
        for head in range(q.shape[2])
        for start in range(0, q.shape[1], step)
    ]
    blocks.each(items, work)
    return out


def attend(q, k, v, scale, seen, out):
    """Compute one block: q [rows, dim] against k and v [keys, dim]."""
    q, k, v = (blocks.loaded(x, slot) for slot, x in enumerate((q, k, v), start=2))
    scores, result = blocks.scratch(0, (len(q), len(k))), blocks.scratch(1, out.shape)
    np.matmul(q, k.T, out=scores)
    np.multiply(scores, np.float32(scale), out=scores)
    hide(scores, *seen)
    np.subtract(scores, np.maximum(scores.max(axis=1, keepdims=True), FLOOR), out=scores)
    np.exp(scores, out=scores)
    np.matmul(scores, v, out=result)
    total = np.maximum(scores.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    np.divide(result, total, out=out, casting="same_kind")


def hide(scores, first, last):
    """Set the scores of unseen keys to minus infinity."""
    width = scores.shape[1]
    if first.max() > 0 or last.min() < width - 1:
        columns = np.arange(width)
        scores[(columns < first[:, None]) | (columns > last[:, None])] = -np.inf


@pytest.mark.flash_attention_forward
def test_flash_attention_forward():
    """Return [batch, queries, heads, dim]."""
    FlashAttentionForwardBenchmark("flash_attention_forward", whole, blocked).run()

"""Benchmark the rotary position embedding of queries and keys."""

import numpy as np
import pytest

from . import base, blocks, sizes

BATCH, QUERY_HEADS, KEY_HEADS, HEAD_DIM = 4, 8, 1, 64
BASE = 10000.0


class RopeBenchmark(base.GenericBenchmark):
    """Measure over sequence lengths: the first number of each shape."""

    def core_shapes(self, itemsize):
        """Return two lengths inside the caches and one well beyond."""
        token = 2 * BATCH * (QUERY_HEADS + KEY_HEADS) * HEAD_DIM + HEAD_DIM
        return [(128,), (1024,), (sizes.rows_beyond_cache(token, itemsize=itemsize),)]

    def more_shapes(self, itemsize):
        """Return an odd length."""
        return [(333,)]

    def input_fn(self, shape, dtype):
        """Make q and k [batch, length, heads, dim], cos and sin [length, dim / 2]."""
        length = shape[0]
        q = base.normal((BATCH, length, QUERY_HEADS, HEAD_DIM), dtype, seed=1)
        k = base.normal((BATCH, length, KEY_HEADS, HEAD_DIM), dtype, seed=2)
        yield q, k, *angles(length, dtype)


def angles(length, dtype):
    """Return the cosines and sines of every position."""
    frequencies = BASE ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angle = np.outer(np.arange(length), frequencies)
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def whole(q, k, cos, sin):
    """Rotate the pairs (i, i + dim / 2) of each head by its position's angles."""
    cos, sin = (table.astype(np.float32)[None, : q.shape[1], None] for table in (cos, sin))

    def rotated(x):
        first, second = np.split(x.astype(np.float32, copy=False), 2, axis=-1)
        turned = [first * cos - second * sin, second * cos + first * sin]
        return np.concatenate(turned, axis=-1).astype(x.dtype, copy=False)

    return rotated(q), rotated(k)


def blocked(q, k, cos, sin):
    """Rotate by blocks of positions."""
    cos, sin = (table.astype(np.float32)[: q.shape[1], None] for table in (cos, sin))
    outs = np.empty_like(q), np.empty_like(k)
    for x, out in zip((q, k), outs):
        step = max(1, blocks.BLOCK // (x.shape[2] * x.shape[3]))
        spans = [
            (batch, slice(start, start + step))
            for batch in range(x.shape[0])
            for start in range(0, x.shape[1], step)
        ]
        blocks.each(spans, lambda at, x=x, out=out: turn(x[at], cos[at[1]], sin[at[1]], out[at]))
    return outs


def turn(x, cos, sin, out):
    """Rotate one block [positions, heads, dim]."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    left, right = (blocks.scratch(slot, first.shape) for slot in (0, 1))
    np.multiply(first, cos, out=left)
    np.multiply(second, sin, out=right)
    np.subtract(left, right, out=out[..., :half], casting="same_kind")
    np.multiply(second, cos, out=left)
    np.multiply(first, sin, out=right)
    np.add(left, right, out=out[..., half:], casting="same_kind")


@pytest.mark.apply_rotary_pos_emb
def test_apply_rotary_pos_emb():
    """Return rotated queries and keys."""
    RopeBenchmark("apply_rotary_pos_emb", whole, blocked).run()

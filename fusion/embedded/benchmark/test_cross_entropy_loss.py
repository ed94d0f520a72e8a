"""Benchmark the cross entropy of logits against class indices."""

import numpy as np
import pytest

from . import base, blocks, conftest, consts, sizes

CLASSES = 32000
IGNORED = -100


class CrossEntropyBenchmark(base.GenericBenchmark2DOnly):
    """Measure over shapes (rows, classes)."""

    def core_shapes(self, itemsize):
        """Return two shapes inside the caches and one well beyond."""
        large = sizes.rows_beyond_cache(CLASSES, itemsize=itemsize)
        return [(64, 64), (512, 1024), (large, CLASSES)]

    def more_shapes(self, itemsize):
        """Return an odd matrix."""
        return [(1000, 257)]

    def input_fn(self, shape, dtype):
        """Make (logits, target) and, at the comprehensive level, weights and reductions."""
        logits = base.normal(shape, dtype, seed=1)
        target = np.random.default_rng(2).integers(0, shape[-1], shape[0])
        yield logits, target
        if conftest.Config.bench_level is consts.BenchLevel.COMPREHENSIVE:
            weight = np.abs(base.normal(shape[-1:], dtype, seed=3)) + np.ones(1, dtype)
            yield logits, target, {"weight": weight, "ignore_index": 1, "reduction": "none"}
            yield logits, target, {"weight": weight, "reduction": "sum", "label_smoothing": 0.1}


def whole(logits, target, weight=None, ignore_index=IGNORED, reduction="mean", label_smoothing=0.0):
    """Return the loss as whole-array expressions."""
    x = logits.astype(np.float32, copy=False)
    highest = x.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(x - highest).sum(axis=1)) + highest[:, 0]
    w = np.ones(x.shape[1], np.float32) if weight is None else weight.astype(np.float32)
    kept, at = known(target, ignore_index)
    loss = w[at] * (log_total - x[np.arange(len(x)), at])
    if label_smoothing:
        spread = (w * (log_total[:, None] - x)).sum(axis=1) / x.shape[1]
        loss = (1 - label_smoothing) * loss + label_smoothing * spread
    return reduced(loss * kept, w[at] * kept, reduction, logits.dtype)


def blocked(
    logits, target, weight=None, ignore_index=IGNORED, reduction="mean", label_smoothing=0.0
):
    """Return the loss, the rows' logarithms and sums taken by blocks."""
    w = np.ones(logits.shape[1], np.float32) if weight is None else weight.astype(np.float32)
    kept, at = known(target, ignore_index)
    loss = np.empty(len(logits), np.float32)

    def work(x, at, loss):
        powers, x = blocks.scratch(0, x.shape), blocks.loaded(x, 1)
        highest = x.max(axis=1)
        np.subtract(x, highest[:, None], out=powers)
        np.exp(powers, out=powers)
        log_total = np.log(powers.sum(axis=1)) + highest
        np.multiply(w[at], log_total - x[np.arange(len(x)), at], out=loss)
        if label_smoothing:
            np.subtract(log_total[:, None], x, out=powers)
            loss *= 1 - label_smoothing
            loss += label_smoothing * (powers @ w) / x.shape[1]

    blocks.rows(work, logits, at, loss)
    return reduced(loss * kept, w[at] * kept, reduction, logits.dtype)


def known(target, ignore_index):
    """Return which targets count, and the targets with a valid index where they do not."""
    kept = target != ignore_index
    return kept.astype(np.float32), np.where(kept, target, 0)


def reduced(loss, weights, reduction, dtype):
    """Reduce the rows' losses; a mean is weighted."""
    if reduction == "none":
        return loss.astype(dtype)
    total = loss.sum()
    return np.asarray(total / weights.sum() if reduction == "mean" else total).astype(dtype)


@pytest.mark.cross_entropy_loss
def test_cross_entropy_loss():
    """Return the loss."""
    CrossEntropyBenchmark("cross_entropy_loss", whole, blocked).run()

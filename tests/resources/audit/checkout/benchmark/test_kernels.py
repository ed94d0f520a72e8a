import os
import signal

import flag_gems
import pytest
import torch
from vllm.not_installed import baseline

from . import base


def pair(shape, dtype):
    return torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)


def rows(shape, dtype):
    return torch.randn(shape, dtype=dtype), torch.tensor([0, 2, 0])


def attention(shape, dtype):
    tokens = shape[0]
    return tuple(torch.randn(2, tokens + extra, 32, dtype=dtype) for extra in (0, 4, 4))


def matrices(shape, dtype):
    return torch.randn(shape, dtype=dtype), torch.randn(shape[::-1], dtype=dtype)


def matrix_and_vector(shape, dtype):
    return torch.randn(8, shape[1], dtype=dtype), torch.randn(shape[1], dtype=dtype)


def die(x, y):
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.skipif(True, reason="no accelerator")
@pytest.mark.add
def test_add():
    base.Benchmark("add", baseline, flag_gems.add, pair).run()


@pytest.mark.add_slack
def test_add_slack():
    base.Benchmark("add_slack", baseline, flag_gems.add, pair).run()


@pytest.mark.take_rows
def test_take_rows():
    base.Benchmark("take_rows", baseline, flag_gems.take_rows, rows).run()


@pytest.mark.take_rows_on_the_side
def test_take_rows_on_the_side():
    op = torch.index_select
    base.Benchmark("take_rows_on_the_side", baseline, lambda x, i: op(x, 0, i), rows).run()


@pytest.mark.spread_rows
def test_spread_rows():
    base.Benchmark("spread_rows", baseline, flag_gems.spread_rows, rows).run()


@pytest.mark.double_in_place
def test_double_in_place():
    base.Benchmark("double_in_place", baseline, flag_gems.double_in_place, pair).run()


@pytest.mark.crash
def test_crash():
    base.Benchmark("crash", baseline, die, pair).run()


@pytest.mark.raises
def test_raises():
    base.Benchmark("raises", baseline, flag_gems.raises, pair).run()


@pytest.mark.attention
def test_attention():
    base.Benchmark("attention", baseline, flag_gems.attention, attention).run()
    q, k, v = attention((21,), torch.float32)
    score = q @ k.mT
    unseen = torch.ones_like(score, dtype=torch.bool).triu(k.shape[1] - q.shape[1] + 1)
    expected = torch.softmax(score.masked_fill(unseen, -torch.inf), -1) @ v
    torch.testing.assert_close(flag_gems.attention(q, k, v), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.multiply
def test_multiply():
    base.Benchmark("multiply", baseline, flag_gems.multiply, matrices).run()


@pytest.mark.multiply_on_the_side
def test_multiply_on_the_side():
    base.Benchmark("multiply_on_the_side", baseline, torch.mm, matrices).run()


@pytest.mark.matrix_times_vector
def test_matrix_times_vector():
    run = flag_gems.matrix_times_vector
    base.Benchmark("matrix_times_vector", baseline, run, matrix_and_vector).run()


@pytest.mark.never_called
def test_never_called():
    base.Benchmark("never_called", torch.add, None, pair).run()

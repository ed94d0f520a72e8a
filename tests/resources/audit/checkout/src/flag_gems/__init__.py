# ruff: noqa: N801, N803
"""A few kernels, each with one thing that an audit must see."""

import types

import torch
import triton
import triton.language as tl


class use_gems:
    def __init__(self, exclude=None):
        pass


@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n and at >= 0
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


def add(x, y):
    out = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def double_in_place(x, y):
    _add[(triton.cdiv(x.numel(), 64),)](x, x, x, x.numel(), BLOCK=64)
    return x


@triton.jit
def _take(table, index, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    source = tl.load(index + row) * width
    tl.store(out + row * width + at, tl.load(table + source + at, mask=inside), mask=inside)


def take_rows(table, index):
    out = torch.empty((len(index), table.shape[1]), dtype=table.dtype)
    width = table.shape[1]
    _take[(len(index),)](table, index, out, width, BLOCK=triton.next_power_of_2(width))
    return out


def spread_rows(table, index):
    return torch.zeros_like(table).index_add_(0, index, table[: len(index)])


def raises(x, y):
    raise ValueError("this kernel wants another layout\nand says more")


@triton.jit
def _attend(
    q,
    k,
    v,
    out,
    queries,
    keys,
    HEAD: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    batch = tl.program_id(0)
    row = tl.program_id(1) * M + tl.arange(0, M)
    lane = tl.arange(0, HEAD)
    at = row[:, None] * HEAD + lane[None, :]
    query = tl.load(q + batch * queries * HEAD + at, mask=row[:, None] < queries, other=0.0)
    total = tl.zeros((M, HEAD), tl.float32)
    norm = tl.zeros((M,), tl.float32)
    best = tl.full((M,), -1e30, tl.float32)
    for start in range(0, keys, N):
        column = start + tl.arange(0, N)
        inside = column[:, None] < keys
        place = batch * keys * HEAD + column[:, None] * HEAD + lane[None, :]
        score = tl.dot(query, tl.trans(tl.load(k + place, mask=inside, other=0.0)))
        seen = (column[None, :] <= row[:, None] + keys - queries) & (column[None, :] < keys)
        score = tl.where(seen, score, float("-inf"))
        high = tl.maximum(best, tl.max(score, 1))
        weight = tl.exp(score - high[:, None])
        shrink = tl.exp(best - high)
        norm = norm * shrink + tl.sum(weight, 1)
        value = tl.load(v + place, mask=inside, other=0.0)
        total = total * shrink[:, None] + tl.dot(weight.to(value.dtype), value)
        best = high
    result = (total / norm[:, None]).to(query.dtype)
    tl.store(out + batch * queries * HEAD + at, result, mask=row[:, None] < queries)


def attention(q, k, v):
    out = torch.empty_like(q)
    batch, queries, head = q.shape
    grid = (batch, triton.cdiv(queries, 16))
    _attend[grid](q, k, v, out, queries, k.shape[1], HEAD=head, M=16, N=16)
    return out


@triton.jit
def _multiply(a, b, out, rows, columns, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.arange(0, N)
    wrapped_row, wrapped_column = row % rows, column % columns
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, depth, K):
        at = start + tl.arange(0, K)
        left = tl.load(
            a + wrapped_row[:, None] * depth + at[None, :], mask=at[None, :] < depth, other=0.0
        )
        right = tl.load(
            b + at[:, None] * columns + wrapped_column[None, :], mask=at[:, None] < depth, other=0.0
        )
        total += tl.dot(left, right)
    inside = (row[:, None] < rows) and (column[None, :] < columns)
    tl.store(out + row[:, None] * columns + column[None, :], total, mask=inside)


def multiply(a, b):
    rows, depth = a.shape
    columns = b.shape[1]
    out = torch.empty((rows, columns), dtype=torch.float32)
    grid = (triton.cdiv(rows, 16),)
    tile = triton.next_power_of_2(columns)
    _multiply[grid](a, b, out, rows, columns, depth, M=16, N=tile, K=16)
    return out


@triton.jit
def _matrix_times_vector(a, x, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 4 + tl.arange(0, 4)
    at = tl.arange(0, BLOCK)
    inside = at[None, :] < width
    matrix = tl.load(a + row[:, None] * width + at[None, :], mask=inside, other=0.0)
    vector = tl.load(x + at, mask=at < width, other=0.0)
    tl.store(out + row, tl.sum(matrix * vector[None, :], axis=1))


def matrix_times_vector(a, x):
    out = torch.empty(a.shape[0], dtype=a.dtype)
    width = a.shape[1]
    grid = (a.shape[0] // 4,)
    _matrix_times_vector[grid](a, x, out, width, BLOCK=triton.next_power_of_2(width))
    return out


fused = types.SimpleNamespace(never_called=add)

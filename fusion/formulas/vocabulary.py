"""Define the functions that formulas may call: meaning, value and written form side by side."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Callable, Iterable, Iterator

from fusion.formulas.notation import PRODUCT, Written, call, method
from fusion.formulas.tensors import (
    EvaluationError,
    dtype_size,
    elements,
    fact,
    integer,
    is_tensor,
    shape_of,
    short,
)


@dataclass(frozen=True)
class Function:
    """Join what a function means, what it computes and how a document writes it."""

    meaning: str
    value: Callable[..., Any]
    written: Callable[..., Written]


# Values


def _numel(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, (list, tuple)):
        return math.prod(integer(size) for size in value)
    return math.prod(shape_of(value))


def _nbytes(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, (list, tuple)):
        return sum(_nbytes(item) for item in value)
    return _numel(value) * dtype_size(value.dtype) if is_tensor(value) else 0


def _element_size(value: Any) -> int:
    if not is_tensor(value):
        raise EvaluationError(f"expected a tensor, found {short(value)}")
    return dtype_size(value.dtype)


def _dim(value: Any, index: Any) -> int:
    shape = shape_of(value)
    position = integer(index)
    if not -len(shape) <= position < len(shape):
        raise EvaluationError(f"expected a dimension {position}, found the shape {list(shape)}")
    return shape[position]


def _ndim(value: Any) -> int:
    return len(shape_of(value))


def _tensor_sum(value: Any) -> Any:
    known = fact(value, "sum")
    if known is not None:
        return known
    return sum(elements(value))


def _count(value: Any, recorded: str | None, counts: Callable[[Any], Any]) -> int:
    known = fact(value, recorded) if recorded else None
    if known is not None:
        return known
    if is_tensor(value) and not hasattr(value, "facts"):
        return int(counts(value).sum())
    return sum(bool(counts(element)) for element in elements(value))


def _count_nonzero(value: Any) -> int:
    return _count(value, "nnz", lambda x: x != 0)


def _count_at_least(value: Any, least: Any) -> int:
    bound = integer(least)
    return _count(value, "nonneg" if bound == 0 else None, lambda x: x >= bound)


def _count_equal(value: Any, wanted: Any) -> int:
    number = integer(wanted)
    smallest, largest = fact(value, "min"), fact(value, "max")
    if smallest is not None and largest is not None and not smallest <= number <= largest:
        return 0
    return _count(value, None, lambda x: x == number)


def _count_between(value: Any, least: Any, limit: Any) -> int:
    low, high = integer(least), integer(limit)
    largest = fact(value, "max")
    if largest is not None and largest < high:
        return _count_at_least(value, low)
    return _count(value, None, lambda x: (x >= low) & (x < high))


def _distinct(value: Any, least: Any = None) -> int:
    if hasattr(value, "unique") and not hasattr(value, "facts"):
        found: Iterable[Any] = value.unique().tolist()
    else:
        found = set(elements(value))
    return sum(least is None or item >= integer(least) for item in found)


def _group_blocks(value: Any, size: Any) -> int:
    return sum(_ceil_div(count, size) for count in Counter(elements(value)).values())


def _leading(indices: Any, lengths: Any) -> list[Any]:
    """Return the first elements of each row, as many as ``lengths`` says of the row's query."""
    counts = elements(lengths)
    if not hasattr(indices, "facts"):
        return [row[..., :count] for row, count in zip(indices, counts)]
    flat, width = elements(indices), _dim(indices, -1)
    rows = [flat[start : start + width] for start in range(0, len(flat), width)]
    rows_of_one = len(rows) // len(counts)
    return [row[: counts[index // rows_of_one]] for index, row in enumerate(rows)]


def _differences(cumulative: Any) -> list[int]:
    ends = [int(end) for end in elements(cumulative)]
    return [end - start for start, end in zip(ends, ends[1:])]


def _ceil_div(left: Any, right: Any) -> int:
    return -(-integer(left) // integer(right))


def _attention_pair_count(
    query_length: Any, key_length: Any, causal: Any, left: Any, right: Any
) -> int:
    queries, keys = integer(query_length), integer(key_length)
    before, after = (-1 if side is None else integer(side) for side in (left, right))
    if bool(causal):
        after = 0
    shift = keys - queries
    upper = queries * keys if after < 0 else _clamped_sum(queries, keys, shift + after + 1)
    lower = 0 if before < 0 else _clamped_sum(queries, keys, shift - before)
    return max(0, upper - lower)


def _clamped_sum(count: int, limit: int, start: int) -> int:
    """Sum ``min(max(start + i, 0), limit)`` over ``count`` values of i, without a loop."""
    return _ramp(count, start) - _ramp(count, start - limit)


def _ramp(count: int, start: int) -> int:
    return _triangle(start + count - 1) - _triangle(start - 1)


def _triangle(number: int) -> int:
    return number * (number + 1) // 2 if number > 0 else 0


def _attention_pairs(
    query_lengths: Any, key_lengths: Any, causal: Any, left: Any = -1, right: Any = -1
) -> int:
    keys = elements(key_lengths)
    queries = elements(query_lengths)
    if len(queries) == 1:
        queries = queries * len(keys)
    if len(queries) != len(keys):
        raise EvaluationError(
            f"expected one key length for each of {len(queries)} queries, found {len(keys)}"
        )
    return sum(
        _attention_pair_count(query, key, causal, left, right) for query, key in zip(queries, keys)
    )


def _varlen_attention_flops(
    query: Any, cumulative: Any, used: Any, causal: Any, window: Any = None
) -> int:
    left, right = (-1, -1) if window is None else elements(window)
    pairs = _attention_pairs(_differences(cumulative), used, causal, left, right)
    return 4 * _dim(query, 1) * _dim(query, 2) * pairs


def _valid_indices(indices: Any, key_length: Any) -> int:
    if key_length is None:
        return _count_at_least(indices, 0)
    return _count_between(indices, 0, key_length)


def _sparse_mla_flops(
    query: Any, indices: Any, value_dim: Any, key_length: Any = None, lengths: Any = None
) -> int:
    heads, groups = _dim(query, -2), _dim(indices, -2)
    if groups == 0 or heads % groups:
        raise EvaluationError(
            f"expected query heads divisible by key heads, found {heads} and {groups}"
        )
    rows = [indices] if lengths is None else _leading(indices, lengths)
    valid = sum(_valid_indices(row, key_length) for row in rows)
    return 2 * valid * (heads // groups) * (_dim(query, -1) + integer(value_dim))


def _flash_mla_flops(
    max_seqlen_pad: Any, batch: Any, query_length: Any, heads: Any, key_dim: Any, value_dim: Any
) -> int:
    # Version-1 files give only the padded maximum. Their benchmark's lengths are base, base + 2,
    # ..., padded to whole blocks of 256.
    sequences = integer(batch)
    base = integer(max_seqlen_pad) - 256
    if sequences <= 0 or base < 0:
        raise EvaluationError(
            f"expected a batch and a padded maximum from 256, found {sequences} and {base + 256}"
        )
    keys = sequences * base + sequences * (sequences - 1)
    return (
        2 * integer(query_length) * integer(heads) * keys * (integer(key_dim) + integer(value_dim))
    )


def _expected_nnz(value: Any, sparsity: Any) -> Fraction:
    return _numel(value) * (1 - Fraction(str(sparsity))) / 2


def _output_nbytes_like(value: Any, count: Any) -> int:
    return integer(count) * _element_size(value)


def _extreme(choose: Callable[[Iterable[Any]], Any]) -> Callable[..., Any]:
    def value(*values: Any) -> Any:
        if len(values) == 1 and not isinstance(values[0], (int, Fraction)):
            known = fact(values[0], choose.__name__)
            return known if known is not None else choose(elements(values[0]))
        return choose(integer(item) for item in values)

    return value


def _row(value: Any, index: Any) -> Any:
    position = integer(index)
    if not hasattr(value, "facts"):
        return value[position]
    flat, width = elements(value), _numel(value) // _dim(value, 0)
    return flat[position * width : (position + 1) * width]


def _spans(rows: int, lengths: Any, size: Any, last: Any) -> Iterator[tuple[int, int, int, int]]:
    """Yield table row, page, first and end offset in it, for the positions of each sequence."""
    page, ends = integer(size), elements(lengths)
    counts = ends if last is None else elements(last)
    for index, (end, count) in enumerate(zip(ends, counts)):
        for first in range((end - count) // page * page, end, page):
            row = index * rows // len(ends)
            yield row, first // page, max(end - count - first, 0), min(end - first, page)


def _paged_rows(table: Any, lengths: Any, size: Any, last: Any = None) -> int:
    pages, width = elements(table), _dim(table, 1)
    used: dict[int, set[tuple[int, int]]] = {}
    for row, page, first, end in _spans(_dim(table, 0), lengths, size, last):
        used.setdefault(pages[row * width + page], set()).add((first, end))
    return sum(_covered(spans) for spans in used.values())


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    total = reached = 0
    for first, end in sorted(spans):
        total += max(0, end - max(first, reached))
        reached = max(reached, end)
    return total


def _paged_entries(table: Any, lengths: Any, size: Any, last: Any = None) -> int:
    return len({span[:2] for span in _spans(_dim(table, 0), lengths, size, last)})


def _compressed_keys(query_starts: Any, key_lengths: Any, ratio: Any, limit: Any) -> int:
    step, most = integer(ratio), integer(limit)
    return sum(
        min((keys - back) // step, most)
        for queries, keys in zip(_differences(query_starts), elements(key_lengths))
        for back in range(queries)
    )


def _distinct_pairs(value: Any, size: Any = 1, owners: Any = None) -> int:
    step, flat = integer(size), elements(value)
    rows = list(range(_dim(value, 0))) if owners is None else elements(owners)
    width = len(flat) // len(rows) if rows else 1
    return len({(rows[i // width], item // step) for i, item in enumerate(flat) if item >= 0})


def _count_leading(value: Any, lengths: Any = None) -> int:
    if value is None:
        return 0
    valid = _count_at_least(value, 0)
    if lengths is None:
        return valid
    if valid == _numel(value):
        counts = elements(lengths)
        rows_of_one = _numel(value) // _dim(value, -1) // len(counts)
        return int(rows_of_one * sum(min(count, _dim(value, -1)) for count in counts))
    return sum(_count_at_least(row, 0) for row in _leading(value, lengths))


# Written forms


def _write_pair_count(
    query: Written, key: Written, causal: Written, left: Written, right: Written
) -> Written:
    shift = f"i + {key.factor} - {query.factor}"
    lower = _bounded(left, f"max(0, {shift} - {left.factor})", "0")
    free = _bounded(right, f"min({key.text}, {shift} + {right.factor} + 1)", key.term)
    diagonal = f"min({key.text}, {shift} + 1)"
    upper = {"True": diagonal, "False": free}.get(
        causal.text, f"({diagonal} if {causal.term} else {free})"
    )
    if lower == "0" and upper == key.term:
        return Written(f"{query.factor} * {key.factor}", PRODUCT)
    difference = upper if lower == "0" else f"{upper} - {lower}"
    return Written(f"sum(max(0, {difference}) for i in range({query.text}))")


def _bounded(side: Written, bound: str, unbounded: str) -> str:
    if side.text == "-1":
        return unbounded
    return f"({bound} if {side.term} >= 0 else {unbounded})"


def _write_pairs(queries: Written, keys: Written, causal: Written, *window: Written) -> Written:
    left, right = window if len(window) == 2 else (Written("-1"), Written("-1"))
    inner = _write_pair_count(Written("Q"), Written("K"), causal, left, right)
    return Written(f"sum({inner.text} for Q, K in broadcast({queries.term}, {keys.term}))")


def _write_varlen(
    query: Written, cumulative: Written, used: Written, causal: Written, window: Written
) -> Written:
    left, right = Written(f"{window.atom}[0]"), Written(f"{window.atom}[1]")
    lengths = Written(f"diff({cumulative.text})")
    pairs = _write_pairs(lengths, used, causal, left, right)
    return Written(f"4 * {query.atom}.shape[1] * {query.atom}.shape[2] * {pairs.text}", PRODUCT)


def _write_sparse_mla(
    query: Written,
    indices: Written,
    value_dim: Written,
    key_length: Written | None = None,
    lengths: Written | None = None,
) -> Written:
    used = indices.term if lengths is None else f"{indices.atom}[..., :{lengths.text}]"
    valid = f"({used} >= 0)"
    if key_length is not None:
        valid = f"(0 <= {used} < {key_length.term})"
    heads = f"{query.atom}.shape[-2] // {indices.atom}.shape[-2]"
    return Written(
        f"2 * {valid}.sum() * ({heads}) * ({query.atom}.shape[-1] + {value_dim.term})", PRODUCT
    )


def _write_flash_mla(
    padded: Written, batch: Written, query: Written, heads: Written, key: Written, value: Written
) -> Written:
    keys = f"sum({padded.term} - 256 + 2 * i for i in range({batch.text}))"
    return Written(
        f"2 * {query.factor} * {heads.factor} * {keys} * ({key.term} + {value.term})", PRODUCT
    )


def _write_paged(item: str) -> Callable[..., Written]:
    """Write a set over the positions j of each length K of a table's row b, or the last n of K."""

    def written(
        table: Written, lengths: Written, size: Written, last: Written | None = None
    ) -> Written:
        element = item.format(table=table.atom, size=size.factor)
        loop = f"for b, K in rows({lengths.text}) for j in range(K)"
        if last is not None:
            loop = f"for b, K, n in rows({lengths.text}, {last.text}) for j in range(K - n, K)"
        return Written(f"len({{{element} {loop}}})")

    return written


def _write_compressed(starts: Written, keys: Written, ratio: Written, limit: Written) -> Written:
    return Written(
        f"sum(min((K - i) // {ratio.atom}, {limit.text}) for Q, K in "
        f"zip(diff({starts.text}), {keys.text}) for i in range(Q))"
    )


def _write_pairs_of(
    value: Written, size: Written | None = None, owners: Written | None = None
) -> Written:
    item = "x" if size is None or size.text == "1" else f"x // {size.atom}"
    owner = "i" if owners is None else f"{owners.atom}[i]"
    loop = f"for i, r in enumerate({value.text}) for x in r if x >= 0"
    return Written(f"len({{({owner}, {item}) {loop}}})")


def _write_leading(value: Written, lengths: Written | None = None) -> Written:
    if lengths is None or lengths.text == "None":
        return Written(f"({value.term} >= 0).sum()")
    return Written(f"({value.atom}[..., :{lengths.text}] >= 0).sum()")


FUNCTIONS: dict[str, Function] = {
    "numel": Function(
        "elements of a tensor, or product of a list; 0 for None", _numel, method("{0}.numel()")
    ),
    "nbytes": Function(
        "bytes of a tensor's elements, or of a list of tensors; 0 for None",
        _nbytes,
        method("{0}.numel() * {0}.element_size()", PRODUCT),
    ),
    "element_size": Function("bytes of one element", _element_size, method("{0}.element_size()")),
    "dim": Function("size of one dimension", _dim, method("{0}.shape[{t1}]")),
    "ndim": Function("number of dimensions", _ndim, method("{0}.ndim")),
    "shape_numel": Function("product of a shape", _numel, call("product")),
    "tensor_sum": Function("sum of the values", _tensor_sum, call("sum")),
    "count_nonzero": Function(
        "values that are not zero", _count_nonzero, method("{0}.count_nonzero()")
    ),
    "count_at_least": Function(
        "values x with x >= n", _count_at_least, method("({s0} >= {s1}).sum()")
    ),
    "count_equal": Function("values equal to n", _count_equal, method("({s0} == {s1}).sum()")),
    "count_between": Function(
        "values x with a <= x < b", _count_between, method("({s1} <= {s0} < {s2}).sum()")
    ),
    "distinct": Function(
        "number of distinct values", lambda value: _distinct(value), method("{0}.unique().numel()")
    ),
    "distinct_at_least": Function(
        "number of distinct values x with x >= n",
        _distinct,
        method("{0}[{s0} >= {s1}].unique().numel()"),
    ),
    "group_blocks": Function(
        "blocks of n that hold the elements of each distinct value apart",
        _group_blocks,
        lambda x, n: Written(f"sum(ceil(c / {n.atom}) for c in counts({x.text}))"),
    ),
    "differences": Function("lengths from their cumulative sums", _differences, call("diff")),
    "min_of": Function("smallest value", _extreme(min), call("min")),
    "max_of": Function("largest value", _extreme(max), call("max")),
    "ceil_div": Function(
        "quotient rounded up", _ceil_div, lambda a, b: Written(f"ceil({a.factor} / {b.atom})")
    ),
    "output_nbytes_like": Function(
        "bytes of n elements of a tensor's dtype",
        _output_nbytes_like,
        lambda x, n: Written(f"{n.factor} * {x.atom}.element_size()", PRODUCT),
    ),
    "attention_pair_count": Function(
        "query-key pairs that a right-aligned mask leaves; a window side that is None or negative"
        " is unbounded",
        _attention_pair_count,
        _write_pair_count,
    ),
    "attention_pairs": Function(
        "the same, summed over sequences; one query length may serve all of them",
        _attention_pairs,
        _write_pairs,
    ),
    "varlen_attention_flops": Function(
        "FLOP of both products of attention over packed sequences",
        _varlen_attention_flops,
        _write_varlen,
    ),
    "sparse_mla_flops": Function(
        "FLOP of both products of latent attention over the valid indices, the first n of a query",
        _sparse_mla_flops,
        _write_sparse_mla,
    ),
    "flash_mla_flops": Function(
        "FLOP of latent attention in the benchmark whose lengths grow by 2 from the padded maximum",
        _flash_mla_flops,
        _write_flash_mla,
    ),
    "expected_nnz": Function(
        "expected non-zeros of a vector of that sparsity after its ReLU",
        _expected_nnz,
        method("{0}.numel() * (1 - {f1}) / 2", PRODUCT),
    ),
    "row": Function("one row of a tensor", _row, method("{0}[{t1}]")),
    "paged_rows": Function(
        "distinct rows of a paged cache that sequences of these lengths use, or the last n of each",
        _paged_rows,
        _write_paged("({table}[b, j // {size}], j % {size})"),
    ),
    "paged_entries": Function(
        "entries of a table of pages that sequences of these lengths use, or the last n of each",
        _paged_entries,
        _write_paged("(b, j // {size})"),
    ),
    "compressed_keys": Function(
        "keys that each query may choose, its position + 1 divided by a ratio, at most a limit",
        _compressed_keys,
        _write_compressed,
    ),
    "distinct_pairs": Function(
        "distinct pairs of a row, or its owner, and x // n over the values x >= 0",
        _distinct_pairs,
        _write_pairs_of,
    ),
    "count_leading": Function(
        "values that are not negative, of each row the first n; 0 for None",
        _count_leading,
        _write_leading,
    ),
}

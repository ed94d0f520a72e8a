"""Define the functions that formulas may call: meaning, value and written form side by side.

A tensor is anything with ``shape`` and ``dtype``: PyTorch's, NumPy's, or a recorded call's, which
offers what was recorded of its values as a mapping ``facts`` (values, min, max, sum, nonneg, nnz).
Counts are exact integers; sizes are in bytes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Callable, Iterable

from fusion import Refusal

# How tightly a written form binds, from a sum to something that needs no parentheses.
SUM, PRODUCT, ATOM = 1, 2, 3


class EvaluationError(Refusal):
    """Say why an expression has no value for these arguments."""


@dataclass(frozen=True)
class Written:
    """Hold a piece of a formula as text, and how tightly it binds."""

    text: str
    binds: int = ATOM

    @property
    def atom(self) -> str:
        """Return the text as it can stand before a dot or a bracket."""
        return self.text if self.binds >= ATOM else f"({self.text})"

    @property
    def factor(self) -> str:
        """Return the text as it can stand in a product."""
        return self.text if self.binds >= PRODUCT else f"({self.text})"

    @property
    def term(self) -> str:
        """Return the text as it can stand in a sum."""
        return self.text if self.binds >= SUM else f"({self.text})"


@dataclass(frozen=True)
class Function:
    """Join what a function means, what it computes and how a document writes it."""

    meaning: str
    value: Callable[..., Any]
    written: Callable[..., Written]


# Reading tensors


def is_tensor(value: Any) -> bool:
    """Tell whether a value has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def dtype_name(dtype: Any) -> str:
    """Return the plain name of a dtype: 'bfloat16' of torch.bfloat16 or of a NumPy dtype."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def dtype_size(dtype: Any) -> int:
    """Return the bytes of one element; packed types count what one stored element takes."""
    name = dtype_name(dtype)
    if name in _SIZES:
        return _SIZES[name]
    if name.startswith("float8") or name.startswith("float4"):
        return 1
    if found := re.fullmatch(r"(?:u?int|b?float|complex)(8|16|32|64|128)", name):
        return int(found[1]) // 8
    raise EvaluationError(f"expected a dtype of known size, found {name!r}")


_SIZES = {"bool": 1, "bool_": 1, "half": 2, "float": 4, "double": 8, "long": 8, "int": 4}
_SIZES |= {"short": 2, "char": 1, "byte": 1, "cfloat": 8, "cdouble": 16, "qint8": 1, "quint8": 1}


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, or the length of a list as a shape."""
    if is_tensor(value):
        return tuple(int(size) for size in value.shape)
    if isinstance(value, (list, tuple)):
        return (len(value),)
    raise EvaluationError(f"expected a tensor, found {_short(value)}")


def elements(value: Any) -> list[Any]:
    """Return the elements of a tensor or a nested list, flat, as plain numbers."""
    if hasattr(value, "facts"):
        if "values" not in value.facts:
            raise EvaluationError(
                f"expected a tensor whose values were recorded, found {_short(value)} without them"
            )
        value = value.facts["values"]
    elif is_tensor(value):
        return list(value.reshape(-1).tolist())
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in elements(part)]
    return [integer(value)]


def integer(value: Any) -> int:
    """Return an exact integer from a number or a tensor of one element."""
    if is_tensor(value):
        if math.prod(shape_of(value)) != 1:
            raise EvaluationError(f"expected one number, found {_short(value)}")
        value = elements(value)[0] if hasattr(value, "facts") else value.item()
    if isinstance(value, (int, Fraction)) and value == int(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise EvaluationError(f"expected an integer, found {_short(value)}")


def _fact(value: Any, name: str) -> int | None:
    facts = getattr(value, "facts", {})
    return None if "values" in facts else facts.get(name)


def _short(value: Any) -> str:
    if is_tensor(value):
        return f"a tensor of shape {list(value.shape)} and dtype {dtype_name(value.dtype)}"
    return repr(value)[:60]


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
        raise EvaluationError(f"expected a tensor, found {_short(value)}")
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
    known = _fact(value, "sum")
    if known is not None:
        return known
    return sum(elements(value))


def _count(value: Any, fact: str | None, counts: Callable[[Any], Any]) -> int:
    known = _fact(value, fact) if fact else None
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
    smallest, largest = _fact(value, "min"), _fact(value, "max")
    if smallest is not None and largest is not None and not smallest <= number <= largest:
        return 0
    return _count(value, None, lambda x: x == number)


def _count_between(value: Any, least: Any, limit: Any) -> int:
    low, high = integer(least), integer(limit)
    largest = _fact(value, "max")
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
            fact = _fact(values[0], choose.__name__)
            return fact if fact is not None else choose(elements(values[0]))
        return choose(integer(item) for item in values)

    return value


# Written forms


def _call(name: str) -> Callable[..., Written]:
    return lambda *args: Written(f"{name}({', '.join(arg.text for arg in args)})")


def _method(text: str, binds: int = ATOM) -> Callable[..., Written]:
    """Write a template in which {0} is the first argument as an atom, {f1} a factor."""

    def written(*args: Written) -> Written:
        factors = {f"f{index}": arg.factor for index, arg in enumerate(args)}
        texts = {f"t{index}": arg.text for index, arg in enumerate(args)}
        return Written(text.format(*[arg.atom for arg in args], **factors, **texts), binds)

    return written


def _write_pair_count(
    query: Written, key: Written, causal: Written, left: Written, right: Written
) -> Written:
    shift = f"i + {key.factor} - {query.factor}"
    lower = _bounded(left, f"max(0, {shift} - {left.factor})", "0")
    free = _bounded(right, f"min({key.text}, {shift} + {right.factor} + 1)", key.text)
    diagonal = f"min({key.text}, {shift} + 1)"
    upper = {"True": diagonal, "False": free}.get(
        causal.text, f"({diagonal} if {causal.term} else {free})"
    )
    if lower == "0" and upper == key.text:
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
    used = indices.text if lengths is None else f"{indices.atom}[..., :{lengths.text}]"
    valid = f"({used} >= 0)"
    if key_length is not None:
        valid = f"(0 <= {used} < {key_length.text})"
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


FUNCTIONS: dict[str, Function] = {
    "numel": Function(
        "elements of a tensor, or product of a list; 0 for None", _numel, _method("{0}.numel()")
    ),
    "nbytes": Function(
        "bytes of a tensor's elements, or of a list of tensors; 0 for None",
        _nbytes,
        _method("{0}.numel() * {0}.element_size()", PRODUCT),
    ),
    "element_size": Function("bytes of one element", _element_size, _method("{0}.element_size()")),
    "dim": Function("size of one dimension", _dim, _method("{0}.shape[{t1}]")),
    "ndim": Function("number of dimensions", _ndim, _method("{0}.ndim")),
    "shape_numel": Function("product of a shape", _numel, _call("product")),
    "tensor_sum": Function("sum of the values", _tensor_sum, _call("sum")),
    "count_nonzero": Function(
        "values that are not zero", _count_nonzero, _method("{0}.count_nonzero()")
    ),
    "count_at_least": Function(
        "values x with x >= n", _count_at_least, _method("({t0} >= {t1}).sum()")
    ),
    "count_equal": Function("values equal to n", _count_equal, _method("({t0} == {t1}).sum()")),
    "count_between": Function(
        "values x with a <= x < b", _count_between, _method("({t1} <= {t0} < {t2}).sum()")
    ),
    "distinct": Function(
        "number of distinct values", lambda value: _distinct(value), _method("{0}.unique().numel()")
    ),
    "distinct_at_least": Function(
        "number of distinct values x with x >= n",
        _distinct,
        _method("{0}[{t0} >= {t1}].unique().numel()"),
    ),
    "group_blocks": Function(
        "blocks of n that hold the elements of each distinct value apart",
        _group_blocks,
        lambda x, n: Written(f"sum(ceil(c / {n.atom}) for c in counts({x.text}))"),
    ),
    "differences": Function("lengths from their cumulative sums", _differences, _call("diff")),
    "min_of": Function("smallest value", _extreme(min), _call("min")),
    "max_of": Function("largest value", _extreme(max), _call("max")),
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
        _method("{0}.numel() * (1 - {t1}) / 2", PRODUCT),
    ),
}

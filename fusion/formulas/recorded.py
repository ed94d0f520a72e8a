"""Read recorded calls of benchmarks: JSON lines, without PyTorch or NumPy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusion.errors import Refusal

_FACTS = ("values", "min", "max", "sum", "nonneg", "nnz")


class CasesError(Refusal):
    """Refuse a file of recorded calls, naming file and line."""


@dataclass(frozen=True)
class RecordedTensor:
    """Stand for a tensor of a recorded call: shape, dtype, and what is known of its values."""

    shape: tuple[int, ...]
    dtype: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """Hold one recorded call of an operator by its benchmark."""

    op: str
    benchmark: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def load(path: Path) -> Iterator[Call]:
    """Read the calls of a file one by one; raise CasesError for a line that is none."""
    try:
        with Path(path).open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _call(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise CasesError(f"{path}: expected a file of recorded calls, found: {error}") from error


def _call(line: str, where: str) -> Call:
    try:
        data = json.loads(line)
        return Call(
            op=data["op"],
            benchmark=data.get("benchmark", ""),
            args=tuple(_decoded(item) for item in data["args"]),
            kwargs={key: _decoded(item) for key, item in data.get("kwargs", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CasesError(
            f"{where}: expected a recorded call with op, args and kwargs, found: "
            f"{type(error).__name__}: {error}"
        ) from error


def _decoded(item: Any) -> Any:
    if isinstance(item, list):
        return [_decoded(part) for part in item]
    if not isinstance(item, dict):
        return item
    if "tensor" in item:
        facts = {key: item[key] for key in _FACTS if key in item}
        return RecordedTensor(tuple(item["tensor"]), item["dtype"], facts)
    if set(item) == {"repr"}:
        return item["repr"]
    return {key: _decoded(part) for key, part in item.items()}

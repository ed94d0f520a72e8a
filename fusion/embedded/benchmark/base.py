"""Run the cases of an operator: inputs, check, timing, record."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from . import check, conftest, consts, timing
from .conftest import emit_record_logger
from .consts import BenchmarkMetrics, BenchmarkResult


class Benchmark:
    """Measure one operator, computed whole (``baseline``) and by blocks (``candidate``).

    ``is_inplace``: the operator writes to its arguments; they are restored before every call.
    Other operators get arguments that cannot be written to.
    """

    DEFAULT_DTYPES = consts.DTYPES

    def __init__(
        self,
        op_name: str,
        baseline: Callable[..., Any],
        candidate: Callable[..., Any],
        dtypes: Iterable[str] | None = None,
        is_inplace: bool = False,
    ) -> None:
        self.op_name = op_name
        self.baseline = baseline
        self.candidate = candidate
        self.is_inplace = is_inplace
        self.dtypes = tuple(dtypes or self.DEFAULT_DTYPES)
        self.to_bench_dtypes = self.dtypes
        self.shapes: list[Any] | None = None

    def core_shapes(self, itemsize: int) -> list[Any]:
        """Return the shapes of the core level for elements of that many bytes."""
        raise NotImplementedError

    def more_shapes(self, itemsize: int) -> list[Any]:
        """Return what the comprehensive level adds."""
        return []

    def accepts(self, shape: Any) -> bool:
        """Tell whether a shape from a file suits the operator."""
        return True

    def input_fn(self, shape: Any, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make the arguments of the cases of one shape; a dict holds keyword arguments."""
        raise NotImplementedError

    def get_input_iter(self, dtype: str) -> Iterator[tuple[Any, ...]]:
        """Make the arguments of every case; a shape that fails does not end the iteration."""
        return Inputs(self.shapes_for(dtype), lambda shape: self.input_fn(shape, dtype))

    def shapes_for(self, dtype: str) -> list[Any]:
        """Return the shapes of the file, or the built-in ones of this level."""
        if self.shapes is not None:
            return self.shapes
        itemsize = np.dtype(dtype).itemsize
        core = _config().bench_level is consts.BenchLevel.CORE
        return self.core_shapes(itemsize) + ([] if core else self.more_shapes(itemsize))

    def set_dtypes(self, user_desired_dtypes: list[str] | None) -> None:
        """Choose the dtypes. Raises ValueError for one that the operator lacks."""
        lacking = [dtype for dtype in user_desired_dtypes or () if dtype not in self.dtypes]
        if lacking:
            raise ValueError(
                f"Given dtype(s) '{', '.join(lacking)}' can't be supported by this op "
                f"'{self.op_name}'"
            )
        self.to_bench_dtypes = tuple(user_desired_dtypes or self.dtypes)

    def set_shapes(self, shape_file: str | None) -> None:
        """Take the operator's shapes from a YAML file, by its name or that of a class."""
        if shape_file is None:
            return
        entries = _entries(Path(shape_file))
        entry = next((entries[key] for key in self.shape_keys() if key in entries), None)
        if entry is None or entry.get("shapes") is None:
            return
        given = entry["shapes"]
        if not isinstance(given, list) or not all(isinstance(shape, list) for shape in given):
            raise ValueError(f"{shape_file}: shapes must be a list of lists, not {given}")
        given = [tuple(shape) for shape in given]
        self.shapes = [shape for shape in given if self.accepts(shape)]
        if not self.shapes:
            raise ValueError(f"{shape_file} holds no shape that suits '{self.op_name}': {given}")

    def shape_keys(self) -> list[str]:
        """List the names under which a shape file may hold this operator, nearest first."""
        return [self.op_name, *(cls.__name__ for cls in type(self).__mro__)]

    def unpack_to_args_kwargs(self, input_tuple: tuple[Any, ...]) -> tuple[list[Any], Any]:
        """Part the arguments of a case into positional and keyword arguments."""
        args = [item for item in input_tuple if not isinstance(item, dict)]
        kwargs = [item.items() for item in input_tuple if isinstance(item, dict)]
        return args, dict(itertools.chain(*kwargs))

    def record_shapes(self, *args: Any, **kwargs: Any) -> Any:
        """Describe arguments for the record: shapes of arrays, numbers and texts as they are."""
        named = {key: _described(value) for key, value in kwargs.items()}
        listed = [_described(arg) for arg in args]
        if listed and named:
            return listed, named
        return listed or named

    def get_latency(self, op: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """Time a call in milliseconds."""
        config = _config()
        prepare = restorer(args) if self.is_inplace else _nothing
        median = config.mode is consts.BenchMode.KERNEL
        return timing.measure(
            lambda: op(*args, **kwargs), prepare, config.warm_up, config.repetition, median
        )

    def run(self) -> None:
        """Measure every case of every dtype, write the record, then fail if any case did."""
        config = _config()
        self.set_dtypes(config.user_desired_dtypes)
        self.set_shapes(config.shape_file)
        failures: list[str] = []
        for dtype in self.to_bench_dtypes:
            metrics = list(self._cases(self.get_input_iter(dtype)))
            failures += [case.error_msg for case in metrics if case.error_msg is not None]
            result = BenchmarkResult(
                op_name=self.op_name,
                dtype=dtype,
                mode=config.mode.value,
                level=config.bench_level.value,
                result=metrics,
            )
            print(result)
            emit_record_logger(result.to_json())
        if failures:
            pytest.fail("\n".join(failures), pytrace=False)

    def _cases(self, inputs: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        while True:
            metric = BenchmarkMetrics()
            try:
                self._measure(metric, next(inputs))
            except StopIteration:
                return
            except Exception as error:
                metric.error_msg = _message(error)
            yield metric
            gc.collect()

    def _measure(self, metric: Any, case: tuple[Any, ...]) -> None:
        args, kwargs = self.unpack_to_args_kwargs(case)
        metric.shape_detail = self.record_shapes(*args, **kwargs)
        if not self.is_inplace:
            _protect([*args, *kwargs.values()])
        check.same_results(self.op_name, self.baseline, self.candidate, args, kwargs)
        metric.latency_base = self.get_latency(self.baseline, *args, **kwargs)
        metric.latency = self.get_latency(self.candidate, *args, **kwargs)
        metric.speedup = metric.latency_base / metric.latency


class Inputs:
    """Iterate over the cases of shapes; after an error the next shape follows."""

    def __init__(self, shapes: list[Any], make: Callable[[Any], Iterator[Any]]) -> None:
        self._shapes = iter(shapes)
        self._make = make
        self._cases: Iterator[Any] = iter(())

    def __iter__(self) -> Inputs:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Return the arguments of the next case."""
        while True:
            for case in self._cases:
                return case
            self._cases = iter(self._make(next(self._shapes)))


class GenericBenchmark(Benchmark):
    """Measure an operator over the shapes of an array."""


class GenericBenchmarkExcluse1D(GenericBenchmark):
    """Measure an operator that needs rows."""

    def accepts(self, shape: Any) -> bool:
        """Leave out what has no rows."""
        return len(shape) > 1


class GenericBenchmark2DOnly(GenericBenchmark):
    """Measure an operator on matrices."""

    def accepts(self, shape: Any) -> bool:
        """Leave out all but matrices."""
        return len(shape) == 2


def normal(shape: Iterable[int], dtype: str, seed: int = 0) -> Any:
    """Draw standard normal numbers."""
    drawn = np.random.default_rng(seed).standard_normal(tuple(shape), dtype=np.float32)
    return drawn.astype(dtype, copy=False)


def restorer(args: Iterable[Any]) -> Callable[[], None]:
    """Return a function that sets array arguments back to what they are now."""
    kept = [(arg, arg.copy()) for arg in args if isinstance(arg, np.ndarray)]

    def restore() -> None:
        for array, original in kept:
            np.copyto(array, original)

    return restore


def _config() -> conftest.BenchConfig:
    if conftest.Config is None:
        raise RuntimeError("benchmarks run under pytest, with the conftest.py of this folder")
    return conftest.Config


def _entries(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"Shape file '{path}' does not exist.")
    try:
        entries = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"Shape file '{path}' is not YAML: {error}") from error
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise ValueError(f"Shape file '{path}' must hold NAME: {{shapes: [[..], ..]}}")
    return entries


def _described(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return list(value.shape)
    if isinstance(value, (list, tuple)):
        return [_described(item) for item in value]
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return None


def _message(error: Exception) -> str:
    if isinstance(error, check.MismatchError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _protect(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


def _nothing() -> None:
    """Do nothing."""

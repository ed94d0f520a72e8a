"""Measure what this machine can do, with the CPUs, memory and threads that this process was given.

A script for the child's Python, 3.9 or newer: ``OMP_NUM_THREADS=32 python ceilings.py``. Memory is
measured as STREAM does (https://www.cs.virginia.edu/stream/ref.html), compute as one square matrix
product per dtype. The work is done by torch, else by NumPy. The last line of the output is a JSON
object: rates in GB/s (10^9 byte/s) and TFLOPS (10^12 FLOP/s), each the best and the median.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EMBEDDED = Path(__file__).resolve().parent
MIB = 1 << 20
# How many arrays each kernel reads and writes. What a store fetches first does not count.
ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
INITIAL = (1.0, 2.0, 0.0)
# Less than sqrt(2) - 1, so that the values change with every repetition and never grow.
SCALAR = 0.4
STREAM_TOLERANCE = 1e-12
SMALLEST_ARRAY, ARRAY_WITHOUT_CACHE_SIZES = 64 * MIB, 512 * MIB
MEMORY_SHARE = 4
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8")
SMALLEST_MATRIX, TRIAL_MATRIX = 64, 256
MATRIX_LIMIT_SECONDS = 30.0
CACHE_LINE = 64
SAMPLE = 16
WORST_RELATIVE_ERROR = 0.25
# The part of the result that a thread computes in two steps; it stays in a core's own cache.
BLOCK = 32 * 1024


class CeilingError(Exception):
    """Say why nothing can be measured here."""


def gbps(kernel: str, array_bytes: int, seconds: float) -> float:
    """Return GB/s of a STREAM kernel over arrays of that many bytes."""
    return ARRAYS[kernel] * array_bytes / seconds / 1e9


def tflops(size: int, seconds: float) -> float:
    """Return TFLOPS of a product of two square matrices; one multiply-add counts as two."""
    flop: int = 2 * size**3
    return flop / seconds / 1e12


def array_bytes(cache_bytes: int, free_bytes: int | None) -> int:
    """Return the bytes of each of the three arrays: beyond the caches, within the memory.

    Four times the last-level caches, at least 64 MiB; where the system hides its caches, 512 MiB.
    Never more than a quarter of the free memory for all three.
    """
    wanted = max(4 * cache_bytes, SMALLEST_ARRAY) if cache_bytes else ARRAY_WITHOUT_CACHE_SIZES
    most = wanted if free_bytes is None else free_bytes // MEMORY_SHARE // len(INITIAL)
    return max(8, min(wanted, most) // 8 * 8)


def expected(rounds: int) -> tuple[float, float, float]:
    """Return what every element of the arrays a, b, c is after that many rounds of STREAM."""
    a, b, c = INITIAL
    for _ in range(rounds):
        c = a
        b = SCALAR * c
        c = a + b
        a = b + SCALAR * c
    return a, b, c


def is_close(found: Sequence[float], value: float) -> bool:
    """Tell whether all numbers, none of them a NaN, are a value but for rounding."""
    return all(abs(number - value) <= STREAM_TOLERANCE * abs(value) for number in found)


def tolerance(epsilon: float, size: int) -> float:
    """Return the relative error that a product may have, also when it adds up in its dtype."""
    return min(WORST_RELATIVE_ERROR, epsilon * math.sqrt(size))


class Torch:
    """Work with torch and its OpenMP threads."""

    def __init__(self, threads: int) -> None:
        import torch

        self._torch = torch
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.name = f"torch {torch.__version__}"
        self.refused: dict[str, str] = {}

    def filled(self, count: int, value: float) -> Any:
        """Return float64 elements, first touched by the threads that will use them."""
        return self._torch.empty(count, dtype=self._torch.float64).fill_(value)

    def kernels(self, a: Any, b: Any, c: Any) -> dict[str, Callable[[], float]]:
        """Return STREAM's kernels in their order; each returns the seconds that it took."""
        torch = self._torch
        return {
            "copy": lambda: seconds(lambda: c.copy_(a)),
            "scale": lambda: seconds(lambda: torch.mul(c, SCALAR, out=b)),
            "add": lambda: seconds(lambda: torch.add(a, b, out=c)),
            "triad": lambda: seconds(lambda: torch.add(b, c, alpha=SCALAR, out=a)),
        }

    def extremes(self, array: Any) -> tuple[float, float]:
        """Return the least and the largest element; a NaN is both."""
        return float(array.min()), float(array.max())

    def item_bytes(self, dtype: str) -> int:
        """Return the bytes of an element."""
        return int(getattr(self._torch, dtype).itemsize)

    def epsilon(self, dtype: str) -> float:
        """Return the distance from 1 to the next number; 0 for integers, which are exact."""
        kind = getattr(self._torch, dtype)
        return float(self._torch.finfo(kind).eps) if kind.is_floating_point else 0.0

    def matrix(self, size: int, dtype: str) -> Any:
        """Return random numbers between -1 and 1, integers between -64 and 63."""
        empty = self._torch.empty((size, size), dtype=getattr(self._torch, dtype)).fill_(0)
        return empty.uniform_(-1, 1) if empty.is_floating_point() else empty.random_(-64, 64)

    def result(self, size: int, dtype: str) -> Any:
        """Return a matrix for a product, of 32-bit integers where integers are multiplied."""
        kind = getattr(self._torch, dtype)
        return self._torch.zeros(
            (size, size), dtype=kind if kind.is_floating_point else self._torch.int32
        )

    def product(self, a: Any, b: Any, out: Any) -> None:
        """Multiply two matrices into a third."""
        multiply = self._torch.mm if a.is_floating_point() else self._torch._int_mm
        multiply(a, b, out=out)

    def relative_error(self, a: Any, b: Any, c: Any) -> float:
        """Compare rows and columns of a product with those of a product in float64."""
        places = slice(None, None, max(1, len(a) // SAMPLE))
        truth = a[places].double() @ b[:, places].double()
        return float((c[places, places].double() - truth).norm() / truth.norm())


class Numpy:
    """Work with NumPy: its loops in Python's threads, which run side by side, and its BLAS."""

    def __init__(self, threads: int) -> None:
        import numpy

        self._numpy = numpy
        self._threads = threads
        self._crew = Crew(threads)
        self.name = f"numpy {numpy.__version__}"
        self.refused = dict.fromkeys(
            ("float16", "bfloat16", "int8"),
            "NumPy has no BLAS for it; a Python with torch may have",
        )

    def filled(self, count: int, value: float) -> Any:
        """Return float64 elements, first touched by the threads that will use them."""
        array = self._numpy.empty(count)
        self._crew.run(lambda index: self._part(array, index).fill(value))
        return array

    def kernels(self, a: Any, b: Any, c: Any) -> dict[str, Callable[[], float]]:
        """Return STREAM's kernels in their order; each returns the seconds that it took."""
        parts = [
            tuple(self._part(array, index) for array in (a, b, c)) for index in range(self._threads)
        ]
        steps = {"copy": self._copy, "scale": self._scale, "add": self._add, "triad": self._triad}

        def timed(step: Callable[[Any, Any, Any], None]) -> Callable[[], float]:
            return lambda: self._crew.run(lambda index: step(*parts[index]))

        return {name: timed(step) for name, step in steps.items()}

    def extremes(self, array: Any) -> tuple[float, float]:
        """Return the least and the largest element; a NaN is both."""
        return float(array.min()), float(array.max())

    def item_bytes(self, dtype: str) -> int:
        """Return the bytes of an element."""
        return int(self._numpy.dtype(dtype).itemsize)

    def epsilon(self, dtype: str) -> float:
        """Return the distance from 1 to the next number."""
        return float(self._numpy.finfo(dtype).eps)

    def matrix(self, size: int, dtype: str) -> Any:
        """Return random numbers between -0.5 and 0.5."""
        matrix = self._numpy.empty((size, size), dtype)
        flat = matrix.reshape(-1)

        def fill(index: int) -> None:
            part = self._part(flat, index)
            self._numpy.random.default_rng(index).random(out=part, dtype=part.dtype)
            part -= 0.5

        self._crew.run(fill)
        return matrix

    def result(self, size: int, dtype: str) -> Any:
        """Return a matrix for a product."""
        return self._numpy.zeros((size, size), dtype)

    def product(self, a: Any, b: Any, out: Any) -> None:
        """Multiply two matrices into a third."""
        self._numpy.matmul(a, b, out=out)

    def relative_error(self, a: Any, b: Any, c: Any) -> float:
        """Compare rows and columns of a product with those of a product in float64."""
        places = slice(None, None, max(1, len(a) // SAMPLE))
        truth = a[places].astype("float64") @ b[:, places].astype("float64")
        norm = self._numpy.linalg.norm
        return float(norm(c[places, places].astype("float64") - truth) / norm(truth))

    def _part(self, array: Any, index: int) -> Any:
        count = len(array)
        return array[count * index // self._threads : count * (index + 1) // self._threads]

    def _copy(self, a: Any, b: Any, c: Any) -> None:
        self._numpy.copyto(c, a)

    def _scale(self, a: Any, b: Any, c: Any) -> None:
        self._numpy.multiply(c, SCALAR, out=b)

    def _add(self, a: Any, b: Any, c: Any) -> None:
        self._numpy.add(a, b, out=c)

    def _triad(self, a: Any, b: Any, c: Any) -> None:
        for start in range(0, len(a), BLOCK):
            block = slice(start, start + BLOCK)
            result = a[block]
            self._numpy.multiply(c[block], SCALAR, out=result)
            self._numpy.add(b[block], result, out=result)


class Crew:
    """Threads that start side by side, each always with the same part of the work."""

    def __init__(self, count: int) -> None:
        self._members = [ThreadPoolExecutor(1) for _ in range(count)]
        self._start = threading.Barrier(count)

    def run(self, work: Callable[[int], object]) -> float:
        """Call ``work`` with each thread's index; return the seconds from first start to last end.

        How long the threads take to wake is no part of it: none of them moves a byte meanwhile.
        """
        running = [
            member.submit(self._timed, work, index) for index, member in enumerate(self._members)
        ]
        spans = [member.result() for member in running]
        return max(end for _, end in spans) - min(start for start, _ in spans)

    def _timed(self, work: Callable[[int], object], index: int) -> tuple[float, float]:
        self._start.wait()
        start = time.perf_counter()
        work(index)
        return start, time.perf_counter()


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def stream(library: Any, size: int, repetitions: int) -> dict[str, dict[str, float]]:
    """Return the GB/s of each kernel; raise CeilingError when the arrays come out wrong."""
    arrays = [library.filled(size // 8, value) for value in INITIAL]
    kernels = library.kernels(*arrays)
    rounds = [{name: call() for name, call in kernels.items()} for _ in range(repetitions + 1)]
    for name, array, value in zip("abc", arrays, expected(len(rounds))):
        found = library.extremes(array)
        if not is_close(found, value):
            raise CeilingError(f"STREAM array {name}: expected {value}, found {found}")
    return {
        name: summary([gbps(name, size, timed[name]) for timed in rounds[1:]]) for name in kernels
    }


def products(library: Any, budget: float, repetitions: int, free: int | None) -> dict[str, Any]:
    """Return the TFLOPS of each dtype, and why those that are missing are."""
    found: dict[str, Any] = {"tflops": {}, "unsupported": dict(library.refused)}
    for dtype in DTYPES:
        if dtype in library.refused:
            continue
        try:
            found["tflops"][dtype] = product(library, dtype, budget, repetitions, free)
        except Exception as error:  # whatever a library says to a dtype is its answer
            found["unsupported"][dtype] = one_line(error)
    return found


def product(
    library: Any, dtype: str, budget: float, repetitions: int, free: int | None
) -> dict[str, float]:
    """Return the TFLOPS of one dtype, with matrices that take about ``budget`` seconds or more."""
    size = faster_size(library, dtype, fitting_size(library, dtype, budget, repetitions, free))
    a, b, c = matrices(library, dtype, size)
    library.product(a, b, c)
    times = [seconds(lambda: library.product(a, b, c)) for _ in range(repetitions)]
    error, limit = library.relative_error(a, b, c), tolerance(library.epsilon(dtype), size)
    if not error <= limit:
        raise CeilingError(
            f"its product of {size} x {size} matrices is wrong: expected a relative error of at "
            f"most {limit:.2g}, found {error:.2g}"
        )
    return {**summary([tflops(size, taken) for taken in times]), "size": size}


def fitting_size(
    library: Any, dtype: str, budget: float, repetitions: int, free: int | None
) -> int:
    """Double the matrices until a product takes long enough, or would take too much."""
    size = SMALLEST_MATRIX
    while True:
        taken = trial(library, dtype, size)
        ahead = 8 * taken * (repetitions + 1)
        if size < TRIAL_MATRIX and ahead > MATRIX_LIMIT_SECONDS:
            raise CeilingError(
                f"too slow: a product of {size} x {size} matrices takes {taken:.2g} s, and "
                f"{repetitions + 1} of twice the size would take {ahead:.0f} s"
            )
        memory = 3 * (2 * size) ** 2 * library.item_bytes(dtype)
        too_much = free is not None and memory > free // MEMORY_SHARE
        if taken >= budget or ahead > MATRIX_LIMIT_SECONDS or too_much:
            return size
        size *= 2


def faster_size(library: Any, dtype: str, size: int) -> int:
    """Return a size, or the one that is a cache line wider: the one with the higher rate.

    Rows that lie a power of two apart share few sets of a cache, which halves the rate of kernels
    that do not pack their matrices.
    """
    wider: int = size + CACHE_LINE // library.item_bytes(dtype)
    return max((size, wider), key=lambda each: tflops(each, trial(library, dtype, each)))


def matrices(library: Any, dtype: str, size: int) -> tuple[Any, Any, Any]:
    """Return two matrices to multiply, and one for their product."""
    return library.matrix(size, dtype), library.matrix(size, dtype), library.result(size, dtype)


def trial(library: Any, dtype: str, size: int) -> float:
    """Return the better of two products' seconds: the first may have to set something up."""
    a, b, c = matrices(library, dtype, size)
    return min(seconds(lambda: library.product(a, b, c)) for _ in range(2))


def summary(rates: Sequence[float]) -> dict[str, float]:
    """Return the best rate, which is the ceiling, and the median, which says how steady it is."""
    return {"best": max(rates), "median": statistics.median(rates)}


def one_line(error: Exception) -> str:
    """Return what an error says, shortened to one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."


def chosen_library(threads: int, asked: str | None) -> Any:
    """Return torch, else NumPy, ready to work; raise CeilingError where neither is."""
    complaints = []
    for make in (Torch, Numpy):
        if asked in (None, make.__name__.lower()):
            try:
                return make(threads)
            except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
                complaints.append(one_line(error))
    raise CeilingError(
        f"{sys.executable}: expected torch or NumPy, found: {'; '.join(complaints)}; "
        "install one of them or name another Python"
    )


def measured(options: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, Any]:
    """Measure everything with the threads of ``OMP_NUM_THREADS``."""
    sys.path.insert(0, str(EMBEDDED))
    from benchmark import sizes, threads  # type: ignore[import-not-found]

    count = threads.count()
    # A limit that the caller set for something else would be measured instead of the machine.
    os.environ.update(dict.fromkeys(threads.BLAS_VARIABLES, str(count)))
    library = chosen_library(count, options.library)
    caches = sizes.last_level_caches(sizes.SYSFS)
    free = sizes.available_memory(sizes.SYSFS, sizes.PROCFS)
    size = (options.array_bytes or array_bytes(caches, free)) // 8 * 8
    return {
        "library": library.name,
        "python": platform.python_version(),
        "cpus": threads.own_cpus(),
        "threads": count,
        "array_bytes": size,
        "cache_bytes": caches,
        "gbps": stream(library, size, options.repetitions),
        **products(library, options.matrix_seconds, options.matrix_repetitions, free),
    }


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Measure memory bandwidth and matrix products.")
    parser.add_argument("--array-bytes", type=int, help="bytes of each of the three arrays")
    parser.add_argument("--repetitions", type=int, default=20, help="timed rounds of STREAM")
    parser.add_argument("--matrix-seconds", type=float, default=0.2, help="least time of a product")
    parser.add_argument("--matrix-repetitions", type=int, default=5, help="timed products")
    parser.add_argument("--library", choices=("torch", "numpy"), help="else torch, else numpy")
    return parser.parse_args(arguments)


def main() -> int:
    """Measure and print; return the exit code."""
    try:
        found = measured(parsed(sys.argv[1:]), os.environ)
    except CeilingError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(found, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

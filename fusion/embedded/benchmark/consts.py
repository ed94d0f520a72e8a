"""Hold the choices of the command line and the records of a measurement."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

# What the suite has. NumPy knows no bfloat16.
DTYPES = ("float16", "float32")
# What may be asked for: a dtype that an operator lacks fails its test, as on a device.
REQUESTABLE_DTYPES = (*DTYPES, "bfloat16", "float64", "int16", "int32", "bool")

# Both in milliseconds.
DEFAULT_WARMUP_TIME = 100
DEFAULT_ITER_TIME = 100


class BenchMode(Enum):
    """Say what a latency is: the median call (kernel) or the mean call (operator, wrapper)."""

    KERNEL = "kernel"
    OPERATOR = "operator"
    WRAPPER = "wrapper"


class BenchLevel(Enum):
    """Say how many cases run."""

    COMPREHENSIVE = "comprehensive"
    CORE = "core"


@dataclass
class BenchmarkMetrics:
    """Hold one case: the shapes of its arguments, latencies in milliseconds, or its error."""

    legacy_shape: Any = None
    shape_detail: Any = None
    latency_base: float | None = None
    latency: float | None = None
    gbps_base: float | None = None
    gbps: float | None = None
    speedup: float | None = None
    accuracy: float | None = None
    tflops: float | None = None
    utilization: float | None = None
    compared_speedup: float | None = None
    error_msg: str | None = None


@dataclass
class BenchmarkResult:
    """Hold the cases of one operator in one dtype."""

    op_name: str
    dtype: str
    mode: str
    level: str
    result: list[Any]

    def to_json(self) -> str:
        """Write the record as one line of strict JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    def __str__(self) -> str:
        """Lay the cases out as a table."""
        head = f"\n{self.op_name} ({self.dtype}, {self.mode}, {self.level})"
        columns = f"{'baseline ms':>14}{'blocked ms':>14}{'speedup':>10}  arguments"
        return "\n".join([head, columns, *(_line(case) for case in self.result), ""])


def _line(case: Any) -> str:
    if case.error_msg is not None:
        return f"{'FAILED':>14}{'':>24}  {case.shape_detail}: {case.error_msg}"
    times = f"{case.latency_base:>14.4f}{case.latency:>14.4f}{case.speedup:>10.2f}"
    return f"{times}  {case.shape_detail}"

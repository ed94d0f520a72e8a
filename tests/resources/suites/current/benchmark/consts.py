"""The shapes of FlagGems' records, without PyTorch."""

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Optional

DEFAULT_WARMUP_TIME = 1000


class BenchMode(Enum):
    KERNEL = "kernel"
    OPERATOR = "operator"
    WRAPPER = "wrapper"


@dataclass
class BenchmarkMetrics:
    legacy_shape: Optional[int] = None
    shape_detail: Optional[Any] = None
    latency_base: Optional[float] = None
    latency: Optional[float] = None
    speedup: Optional[float] = None
    error_msg: Optional[str] = None


@dataclass
class BenchmarkResult:
    op_name: str
    dtype: str
    mode: str
    level: str
    result: list[BenchmarkMetrics]

    def to_json(self):
        return json.dumps(asdict(self))

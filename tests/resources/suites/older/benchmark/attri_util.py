"""The shapes of FlagGems' records before 2026-04-28."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Optional

DEFAULT_WARMUP_COUNT = 1000


@dataclass
class BenchmarkMetrics:
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

"""One benchmark class with the attachment points of the current layout."""

import numpy as np
import pytest

from .conftest import Config, emit_record_logger
from .consts import BenchmarkMetrics, BenchmarkResult


class Benchmark:
    def __init__(self, op_name, inputs, latencies, dtypes=("float16", "float32")):
        self.op_name = op_name
        self.inputs = inputs
        self.latencies = latencies
        self.dtypes = dtypes

    def set_dtypes(self):
        refused = [dtype for dtype in Config.dtypes or [] if dtype not in self.dtypes]
        if refused:
            raise ValueError(
                f"Given dtype(s) '{', '.join(refused)}'can't be supported by this op "
                f"'{self.op_name}'"
            )
        return Config.dtypes or list(self.dtypes)

    def get_input_iter(self, dtype):
        for shape in self.inputs:
            yield np.ones(shape, dtype), np.ones(shape, dtype)

    def record_shapes(self, *args, **kwargs):
        return [list(arg.shape) for arg in args]

    def get_latency(self, index, kind):
        latency = self.latencies[index]
        return latency[kind]() if callable(latency[kind]) else latency[kind]

    def run(self):
        for dtype in self.set_dtypes():
            metrics = []
            for index, args in enumerate(self.get_input_iter(dtype)):
                metric = BenchmarkMetrics()
                try:
                    metric.shape_detail = self.record_shapes(*args)
                    metric.latency_base = self.get_latency(index, 0)
                    metric.latency = self.get_latency(index, 1)
                    metric.speedup = metric.latency_base / metric.latency
                except Exception as error:
                    metric.error_msg = str(error)
                    pytest.fail(str(error))
                finally:
                    metrics.append(metric)
            result = BenchmarkResult(self.op_name, f"torch.{dtype}", "kernel", "core", metrics)
            emit_record_logger(result.to_json())

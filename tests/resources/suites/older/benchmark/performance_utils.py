"""One benchmark class with the attachment points of the older layout."""

import logging

import numpy as np

from .attri_util import BenchmarkMetrics, BenchmarkResult
from .conftest import Config


class Benchmark:
    def __init__(self, op_name, torch_op, dtypes=None, is_backward=False, **kwargs):
        self.op_name = op_name

    def get_input_iter(self, dtype):
        raise NotImplementedError

    def record_shapes(self, *args, **kwargs):
        return [list(arg.shape) for arg in args]

    def run(self):
        for dtype in Config.dtypes or ["float32"]:
            metrics = []
            for args in self.get_input_iter(dtype):
                metric = BenchmarkMetrics()
                metric.shape_detail = self.record_shapes(*args)
                metric.latency_base = 2.0
                metric.latency = 1.0
                metric.speedup = metric.latency_base / metric.latency
                metrics.append(metric)
            result = BenchmarkResult(self.op_name, f"torch.{dtype}", "kernel", "core", metrics)
            logging.info(result.to_json())


class PairBenchmark(Benchmark):
    def get_input_iter(self, dtype):
        for shape in [(4, 4), (8, 8)]:
            yield np.ones(shape, dtype), np.ones(shape, dtype)

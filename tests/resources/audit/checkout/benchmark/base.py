"""The part of a benchmark harness that an audit meets."""

import torch


class Benchmark:
    DEFAULT_DTYPES = (torch.float16, torch.float32)
    SHAPES = ((5, 66), (3, 130))

    def __init__(self, op_name, torch_op, gems_op=None, inputs=None):
        self.op_name = op_name
        self.torch_op = torch_op
        self.gems_op = gems_op
        self.is_backward = False
        self.inputs = inputs

    def init_user_config(self):
        self.shapes = list(self.SHAPES)
        self.to_bench_dtypes = list(self.DEFAULT_DTYPES)
        self.to_bench_metrics = ["latency_base", "latency", "speedup"]

    def get_input_iter(self, dtype):
        for shape in self.shapes:
            yield self.inputs(shape, dtype)

    def record_shapes(self, *args, **kwargs):
        return [getattr(arg, "shape", arg) for arg in args]

    def get_latency(self, op, *args, **kwargs):
        raise AssertionError("an audit measures nothing")

    def run(self):
        self.init_user_config()
        for dtype in self.to_bench_dtypes:
            for args in self.get_input_iter(dtype):
                self.record_shapes(*args)
                if "latency_base" in self.to_bench_metrics:
                    self.get_latency(self.torch_op, *args)
                self.get_latency(self.gems_op or self.torch_op, *args)

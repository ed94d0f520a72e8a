"""Calls are recorded from the benchmarks' own inputs, without running what they measure.

The tests that make inputs need a Python with the audit extra: this one, or the one that
FUSION_AUDIT_PYTHON names. They are skipped, saying so, where there is none.
"""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from fusion.audit import record, replay
from fusion.audit.proof import AuditRefused
from fusion.formulas.catalogue import Catalogue, UnknownOperator

from .test_audit_proof import CHECKOUT, PYTHON, needs_kernels

FORMULAS = """
version: 1
formulas:
  plain: &entry
    category: memory
    metric: logical_bytes
    inputs: {x: {position: 0}}
    expression: nbytes(x)
  mixed: *entry
  derived: *entry
  dependent: *entry
  every_kind: *entry
  absent: *entry
"""
# In bytes; of the two shapes below, one has less and one more.
LIMIT = 24 * 1024
BENCHMARKS = """
import pytest
import torch

from . import base


class Sized(base.Benchmark):
    SHAPES = ((4, 8), (128, 128))


def forbidden(*args, **kwargs):
    raise AssertionError("a recording runs nothing")


def run(name, inputs):
    Sized(name, forbidden, forbidden, inputs).run()


@pytest.mark.plain
def test_plain():
    run("plain", lambda shape, dtype: (torch.ones(shape, dtype=dtype),))


@pytest.mark.mixed
def test_mixed():
    def inputs(shape, dtype):
        small = torch.ones(shape[1], dtype=dtype)
        return torch.randn(shape, dtype=dtype) * small, small

    run("mixed", inputs)


@pytest.mark.derived
def test_derived():
    def inputs(shape, dtype):
        large = torch.ones(1, dtype=dtype).repeat(shape[0] * shape[1]).reshape(shape)
        return large.t(), large.to(torch.float64).sum()

    run("derived", inputs)


@pytest.mark.dependent
def test_dependent():
    def inputs(shape, dtype):
        x = torch.ones(shape, dtype=dtype)
        return x, int(x.sum())

    run("dependent", inputs)


@pytest.mark.every_kind
def test_every_kind():
    def inputs(shape, dtype):
        return (
            torch.full((2,), -1, dtype=torch.int32),
            torch.arange(-1, 2999),
            torch.tensor([0.0, 2.0], dtype=dtype),
            torch.ones(2, 3).t(),
            [torch.tensor([True])],
            {"a": None},
            float("inf"),
            dtype,
            1.5,
        )

    run("every_kind", inputs)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    root = tmp_path_factory.mktemp("recorded") / "FlagGems"
    shutil.copytree(CHECKOUT, root)
    (root / "benchmark" / "test_kernels.py").write_text(BENCHMARKS)
    (root / "formulas.yaml").write_text(FORMULAS)
    return root


@pytest.fixture(scope="module")
def recorded(checkout):
    """Record everything once: the file, its calls by operator, what was told, the count."""
    path, told = checkout / "calls.jsonl", []
    count = record.record(
        checkout, PYTHON, checkout / "formulas.yaml", path, tell=told.append, largest=LIMIT
    )
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    return path, calls, told, count


def of(calls, operator):
    return [call for call in calls if call["op"] == operator]


@needs_kernels
def test_every_call_is_recorded_in_every_dtype_and_nothing_runs(recorded):
    """Both shapes of both dtypes are there, with file, class and arguments, once each."""
    _, calls, _, count = recorded
    shapes = [(one["args"][0]["tensor"], one["args"][0]["dtype"]) for one in of(calls, "plain")]
    assert shapes == [
        (shape, dtype) for dtype in ("float16", "float32") for shape in ([4, 8], [128, 128])
    ]
    first = of(calls, "plain")[0]
    assert (first["benchmark"], first["class"]) == ("test_kernels.py", "Sized")
    assert (first["kwargs"], first["is_backward"]) == ({}, False)
    assert count == len(calls)


@needs_kernels
def test_tensor_beyond_the_limit_has_shape_and_dtype_alone(recorded):
    """A tensor of 32 KiB is told without values; the small one keeps them."""
    _, calls, _, _ = recorded
    small, large = of(calls, "plain")[:2]
    assert small["args"] == [{"tensor": [4, 8], "dtype": "float16", "nnz": 32}]
    assert large["args"] == [{"tensor": [128, 128], "dtype": "float16"}]


@needs_kernels
def test_what_is_made_from_a_large_tensor_is_recorded_too(recorded):
    """Small tensors beside a large one, and views and sums of it, do not lose the call."""
    _, calls, _, _ = recorded
    x, small = of(calls, "mixed")[1]["args"]
    assert x == {"tensor": [128, 128], "dtype": "float16"}
    assert small == {"tensor": [128], "dtype": "float16", "nnz": 128}
    x, total = of(calls, "derived")[1]["args"]
    assert x == {"tensor": [128, 128], "dtype": "float16", "stride": [1, 128]}
    assert total == {"tensor": [], "dtype": "float64"}


@needs_kernels
def test_input_that_needs_the_values_of_a_large_tensor_is_named(recorded):
    """What cannot be made is told with its place and reason, and the other dtypes still come."""
    _, calls, told, _ = recorded
    dtypes = [one["args"][0]["dtype"] for one in of(calls, "dependent")]
    assert dtypes == ["float16", "float32"]
    (line,) = [line for line in told if line.startswith("left out: dependent")]
    assert line.startswith("left out: dependent: dependent after 1 inputs: RuntimeError")
    assert [line for line in told if "plain" in line] == []


@needs_kernels
def test_operator_without_a_benchmark_is_named(recorded):
    """An operator that this suite does not measure is not left out in silence."""
    assert "left out: absent: it has no benchmark in this suite" in recorded[2]


@needs_kernels
def test_values_are_told_as_the_format_wants(recorded):
    """Few integers are listed, many summed up, floats counted; other objects are texts."""
    _, calls, _, _ = recorded
    assert of(calls, "every_kind")[0]["args"] == [
        {"tensor": [2], "dtype": "int32", "values": [-1, -1]},
        {"tensor": [3000], "dtype": "int64"}
        | {"min": -1, "max": 2998, "sum": 2998 * 2999 // 2 - 1, "nonneg": 2999},
        {"tensor": [2], "dtype": "float16", "nnz": 1},
        {"tensor": [3, 2], "dtype": "float32", "stride": [1, 3], "nnz": 6},
        [{"tensor": [1], "dtype": "bool", "values": [True]}],
        {"a": None},
        {"repr": "inf"},
        {"repr": "torch.float16"},
        1.5,
    ]


@needs_kernels
def test_what_was_recorded_can_be_replayed(recorded, checkout):
    """Formulas are evaluated on a recording as on the benchmark's own arguments."""
    replayed = replay.replay(Catalogue.load(checkout / "formulas.yaml"), recorded[0])
    plain = [(one.value, one.failure) for one in replayed if one.op == "plain"]
    assert plain == [(64, ""), (32768, ""), (128, ""), (65536, "")]
    assert all(not one.failure for one in replayed)


@needs_kernels
def test_small_shapes_replace_those_of_the_suite(checkout, tmp_path):
    """A file of shapes, by class or operator, takes the place of the core level."""
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("shapes: {Sized: [[3, 5]]}\n")
    path = tmp_path / "calls.jsonl"
    own = checkout / "formulas.yaml"
    count = record.record(checkout, PYTHON, own, path, ["plain"], shapes=shapes)
    tensors = [json.loads(line)["args"][0]["tensor"] for line in path.read_text().splitlines()]
    assert (count, tensors) == (2, [[3, 5], [3, 5]])


@needs_kernels
def test_recording_of_nothing_is_refused_with_the_reason(checkout, tmp_path):
    """No file is made where no benchmark gave a call."""
    path = tmp_path / "calls.jsonl"
    with pytest.raises(AuditRefused, match="absent: it has no benchmark in this suite"):
        record.record(checkout, PYTHON, checkout / "formulas.yaml", path, ["absent"])
    assert not path.exists()


def test_file_that_is_there_is_kept(checkout, tmp_path):
    """A recording never replaces or extends a file that it did not make."""
    path = tmp_path / "calls.jsonl"
    path.write_text("mine")
    with pytest.raises(AuditRefused, match="expected a file to make"):
        record.record(checkout, sys.executable, checkout / "formulas.yaml", path)
    assert path.read_text() == "mine"


def test_folder_that_is_not_there_is_refused(checkout, tmp_path):
    """A path that cannot become a file is refused before anything runs."""
    with pytest.raises(AuditRefused, match="expected its folder"):
        path = tmp_path / "absent" / "calls.jsonl"
        record.record(checkout, sys.executable, checkout / "formulas.yaml", path)


@needs_kernels
def test_unknown_operator_is_refused_before_anything_runs(checkout, tmp_path):
    """A misspelt name is answered with the nearest one."""
    path = tmp_path / "calls.jsonl"
    with pytest.raises(UnknownOperator, match="did you mean plain"):
        record.record(checkout, PYTHON, checkout / "formulas.yaml", path, ["plein"])

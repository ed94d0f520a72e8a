"""Formulas are checked on recorded calls without PyTorch or FlagGems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusion.audit import replay
from fusion.formulas.catalogue import Catalogue, UnknownOperator
from fusion.formulas.recorded import CasesError

from .conftest import RESOURCES

OWN = Path(__file__).parent.parent / "formulas" / "fusion_metrics_formulas.yaml"


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.load(OWN)


def write(tmp_path, *calls):
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    return path


def call(op, *shapes, **kwargs):
    tensors = [{"tensor": list(shape), "dtype": "float16"} for shape in shapes]
    return {"op": op, "args": tensors, "kwargs": kwargs}


def test_every_call_has_a_value_or_a_reason(catalogue, tmp_path):
    """A call that cannot be counted says why, and costs the others nothing."""
    path = write(
        tmp_path,
        call("silu_and_mul", (4, 8), (4, 8)),
        call("silu_and_mul"),
        call("no_such_operator", (1,)),
    )
    counted, unbound, unknown = replay.replay(catalogue, path)
    assert (counted.value, counted.failure) == (3 * 32 * 2, "")
    assert "expected input 'A'" in unbound.failure
    assert unknown.failure == "no formula has this name"
    assert replay.summary((counted, unbound, unknown)) == (
        "1 of 3 calls of 2 operations counted; not all of: no_such_operator, silu_and_mul"
    )


def test_intensity_is_flop_per_byte_of_the_tensors(catalogue, tmp_path):
    """A compute operator's intensity divides its FLOP by the bytes of the call's tensors."""
    vector = {"tensor": [4], "dtype": "float16", "nnz": 3}
    matrix = {"tensor": [4, 8], "dtype": "float16"}
    path = write(tmp_path, {"op": "rwkv_mm_sparsity", "args": [vector, matrix]})
    (one,) = replay.replay(catalogue, path)
    assert one.value == 2 * 3 * 8
    assert one.intensity == 48 / (2 * 4 + 2 * 32)


def test_misspelt_operation_is_told_the_nearest_name(catalogue, tmp_path):
    """An operation that no formula names is answered with the name that it may mean."""
    (one,) = replay.replay(catalogue, write(tmp_path, call("silu_and_mull", (4, 8), (4, 8))))
    assert one.failure == "no formula has this name (did you mean silu_and_mul?)"


def test_call_without_work_is_a_failure(catalogue, tmp_path):
    """A count of 0 is no positive integer, and is not counted."""
    (one,) = replay.replay(catalogue, write(tmp_path, call("silu_and_mul", (0, 8), (0, 8))))
    assert (one.value, one.failure) == (0, "the value is 0")
    assert replay.summary((one,)).startswith("0 of 1 calls")


def test_dtype_of_unknown_size_costs_only_the_intensity(catalogue, tmp_path):
    """FLOP that need no element size stay counted beside a dtype that nobody knows."""
    vector = {"tensor": [4], "dtype": "unheard_of", "nnz": 3}
    matrix = {"tensor": [4, 8], "dtype": "float16"}
    path = write(
        tmp_path, {"op": "rwkv_mm_sparsity", "args": [vector, matrix]}, call("reglu", (4, 8))
    )
    compute, memory = replay.replay(catalogue, path)
    assert (compute.value, compute.intensity, compute.failure) == (48, None, "")
    assert memory.value is not None
    assert memory.intensity is None


def test_tensors_inside_lists_and_keywords_count_for_the_intensity(catalogue, tmp_path):
    """The bytes of a call are those of all its tensors, wherever it holds them."""
    vector = {"tensor": [4], "dtype": "float32", "nnz": 4}
    matrix = {"tensor": [4, 8], "dtype": "float32"}
    extra = {"tensor": [16], "dtype": "float16"}
    data = {"op": "rwkv_mm_sparsity", "args": [vector, matrix], "kwargs": {"other": [extra]}}
    (one,) = replay.replay(catalogue, write(tmp_path, data))
    assert one.intensity == 64 / (16 + 128 + 32)


def test_operators_narrow_the_calls_and_keep_their_numbers(catalogue, tmp_path):
    """A chosen operator, by any of its names, is replayed alone."""
    path = write(tmp_path, call("reglu", (4, 8)), call("silu_and_mul", (4, 8), (4, 8)))
    (one,) = replay.replay(catalogue, path, ["silu_and_mul"])
    assert (one.op, one.case) == ("silu_and_mul", 0)
    with pytest.raises(UnknownOperator, match="did you mean silu_and_mul"):
        replay.replay(catalogue, path, ["silu_and_mull"])


def test_recorded_selection_is_counted(catalogue):
    """Every call of the selection is listed; those with their values kept have a positive count."""
    replayed = replay.replay(catalogue, RESOURCES / "cases.jsonl")
    lines = (RESOURCES / "cases.jsonl").read_text().splitlines()
    assert len(replayed) == len(lines)
    failed = [one for one in replayed if one.failure]
    assert all("whose values were recorded" in one.failure for one in failed)
    assert all(one.value > 0 for one in replayed if not one.failure)
    assert len(failed) < len(replayed) / 4


def test_table_has_a_line_for_each_operation(catalogue):
    """The selection of real calls is told operation by operation."""
    replayed = replay.replay(catalogue, RESOURCES / "cases.jsonl")
    assert len(replay.detail(replayed).splitlines()) == 2 + len(replayed)
    table = replay.table(replayed)
    assert len(table.splitlines()) == 2 + len({one.op for one in replayed})


def test_file_that_is_none_is_refused_with_its_line(catalogue, tmp_path):
    """A damaged line is named."""
    path = tmp_path / "calls.jsonl"
    path.write_text('{"op": "silu_and_mul", "args": []}\n{"op"\n')
    with pytest.raises(CasesError, match=r"calls\.jsonl:2"):
        replay.replay(catalogue, path)


def test_all_recorded_calls_are_counted_or_named(catalogue, shared):
    """Of the 1,070 recorded calls each is an exact positive integer, or lacks recorded values."""
    replayed = replay.replay(catalogue, shared / "cases" / "fused_core.jsonl")
    failures = {one.failure.split(":")[1].split(",")[0].strip() for one in replayed if one.failure}
    assert len(replayed) == 1070
    assert failures == {"expected a tensor whose values were recorded"}
    assert sum(not one.failure for one in replayed) >= 1031

"""Recorded calls are read back as what formulas take."""

from __future__ import annotations

import json

import pytest

from fusion.formulas import recorded
from fusion.formulas.recorded import Call, CasesError, RecordedTensor

from .conftest import RESOURCES


def load(tmp_path, *lines):
    path = tmp_path / "calls.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return list(recorded.load(path))


def test_call_is_decoded(tmp_path):
    """Tensors, nested lists, texts and mappings of a recording become values of a call."""
    tensor = {"tensor": [2, 3], "dtype": "torch.float16", "sum": 4, "stride": [3, 1]}
    line = {
        "op": "x",
        "benchmark": "test_x.py",
        "args": [tensor, [1, tensor], None, True, {"repr": "torch.float16"}],
        "kwargs": {"n": 3, "more": {"inner": tensor}},
    }
    recorded = RecordedTensor((2, 3), "torch.float16", {"sum": 4})
    assert load(tmp_path, line) == [
        Call(
            op="x",
            benchmark="test_x.py",
            args=(recorded, [1, recorded], None, True, "torch.float16"),
            kwargs={"n": 3, "more": {"inner": recorded}},
        )
    ]


def test_empty_lines_are_passed_over_and_keywords_are_optional(tmp_path):
    """A blank line is nothing, and a call may have no keywords."""
    assert load(tmp_path, {"op": "x", "args": []}, "", "  ") == [Call("x", "", (), {})]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "JSONDecodeError"),
        ("[1]", "TypeError"),
        ('{"args": []}', "KeyError: 'op'"),
        ('{"op": "x"}', "KeyError: 'args'"),
        ('{"op": "x", "args": 1}', "TypeError"),
        ('{"op": "x", "args": [], "kwargs": []}', "AttributeError"),
        ('{"op": "x", "args": [{"tensor": [1]}]}', "KeyError: 'dtype'"),
    ],
)
def test_line_that_is_no_call_is_refused_with_its_number(tmp_path, line, told):
    """A damaged line names file and line, and what was found there."""
    with pytest.raises(CasesError) as refusal:
        load(tmp_path, {"op": "x", "args": []}, line)
    assert str(refusal.value).startswith(f"{tmp_path / 'calls.jsonl'}:2: ")
    assert told in str(refusal.value)


def test_file_that_cannot_be_read_is_refused(tmp_path):
    """An absent file and one that is not UTF-8 are errors with their name."""
    with pytest.raises(CasesError, match="nowhere"):
        list(recorded.load(tmp_path / "nowhere.jsonl"))
    (tmp_path / "bytes.jsonl").write_bytes(b'{"op": "\xff"}\n')
    with pytest.raises(CasesError, match=r"bytes\.jsonl"):
        list(recorded.load(tmp_path / "bytes.jsonl"))


def test_calls_come_one_by_one(tmp_path):
    """The first calls are there before a later line is read."""
    path = tmp_path / "calls.jsonl"
    path.write_text('{"op": "x", "args": []}\n{\n')
    reading = recorded.load(path)
    assert next(reading).op == "x"
    with pytest.raises(CasesError):
        next(reading)


def test_recordings_of_the_repository_are_read():
    """The recorded calls in the resources are all calls of named operators."""
    calls = list(recorded.load(RESOURCES / "cases.jsonl"))
    assert calls
    assert all(call.op.isidentifier() and call.args for call in calls)

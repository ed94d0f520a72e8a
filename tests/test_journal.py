"""A run's folder: its paths, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import pytest

from fusion import files, journal
from fusion.files import FileError
from fusion.journal import Attempt, Journal


def test_paths_are_those_of_the_layout(tmp_path):
    """Every file of a run has its one place below the run's folder."""
    kept = journal.of(tmp_path, "id")
    assert kept.folder == tmp_path / "runs" / "id"
    assert kept.plan == kept.folder / "plan.json"
    assert kept.outcome("x") == kept.folder / "ops" / "x" / "outcome.json"
    attempt = kept.attempt("x", 2)
    assert attempt.folder == kept.folder / "ops" / "x" / "attempt-2"
    files = (attempt.output, attempt.cases, attempt.record, attempt.command)
    assert [file.name for file in files] == [
        "stdout.txt",
        "cases.jsonl",
        "record.log",
        "command.json",
    ]
    assert {file.parent for file in files} == {attempt.folder}


def test_operator_is_done_when_its_outcome_exists(tmp_path):
    """The existence of one file is what resume goes by."""
    kept = Journal(tmp_path)
    assert not kept.is_done("x")
    kept.operator("x").mkdir(parents=True)
    files.write_json(kept.outcome("x"), {})
    assert kept.is_done("x")


def test_create_writes_the_plan_and_refuses_a_second_time(tmp_path):
    """A run's folder is new, and holds the plan before anything else."""
    kept = journal.create(journal.of(tmp_path / "new", "id"), {"a": 1})
    assert files.read_json(kept.plan) == {"a": 1}
    with pytest.raises(FileError, match="--output-dir"):
        journal.create(kept, {"a": 2})
    assert files.read_json(kept.plan) == {"a": 1}


def test_largest_record_is_adopted(tmp_path):
    """The record that the suite named after its command line gets its plain name."""
    (tmp_path / "result_a.log").write_text("")
    (tmp_path / "result_b.log").write_text("[INFO] record")
    Attempt(tmp_path).adopt_record()
    assert (tmp_path / "record.log").read_text() == "[INFO] record"


def test_attempt_without_a_record_is_left_alone(tmp_path):
    """A child that wrote no record has none."""
    Attempt(tmp_path).adopt_record()
    assert list(tmp_path.iterdir()) == []


def test_file_is_replaced_as_a_whole(tmp_path):
    """Writing leaves the new text and nothing beside it."""
    path = tmp_path / "file"
    files.write(path, "old\r\n")
    files.write(path, "new ü\n")
    assert path.read_bytes() == "new ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_leaves_the_old_text(tmp_path, monkeypatch):
    """A full disk costs the new text alone, and no temporary file stays."""
    path = tmp_path / "file"
    files.write(path, "old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_strict_and_readable(tmp_path):
    """NaN is no JSON; letters stay letters; what JSON lacks becomes its text."""
    with pytest.raises(ValueError, match="JSON"):
        files.json_text({"a": math.nan})
    text = files.json_text({"é": Path("/a"), "b": (1, None)})
    assert json.loads(text) == {"é": "/a", "b": [1, None]}
    assert "é" in text
    assert text.endswith("}\n")


def test_value_that_is_no_json_leaves_no_file(tmp_path):
    """A value that cannot be written touches nothing."""
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "file", math.inf)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", None])
def test_damaged_json_is_an_error_with_its_file(tmp_path, content):
    """A torn, foreign or absent file is named."""
    path = tmp_path / "file.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=r"file\.json: expected JSON"):
        files.read_json(path)


def test_newer_format_is_refused_and_older_is_read():
    """A reader that meets a newer format says who can read it."""
    files.check_format({"format": 1}, 1, "plan")
    files.check_format({}, 1, "plan")
    with pytest.raises(FileError, match=r"plan: expected format 1 or older, found 2.*newer"):
        files.check_format({"format": 2}, 1, "plan")


def test_writable_folder_is_checked_without_touching_it(tmp_path):
    """A folder that could be made is fine, and is not made."""
    files.check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_folder_below_a_file_is_refused(tmp_path):
    """Where a file stands in the way, it is named."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(FileError, match=r"found that .*file is not one"):
            files.check_writable(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_refused(tmp_path):
    """A folder that this user may not write is refused before the run."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileError, match="--output-dir"):
            files.check_writable(tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)

"""A YAML file is read strictly, and an error tells where it is."""

from __future__ import annotations

import hashlib

import pytest

from fusion import text, yamlfile
from fusion.yamlfile import DocumentError


def load(tmp_path, content):
    path = tmp_path / "file.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return yamlfile.load(path)


def test_values_come_with_the_digest_of_their_bytes(tmp_path):
    """The digest is that of exactly the bytes that were parsed."""
    read = load(tmp_path, "a: {b: [1, x]}\n")
    assert read.data == {"a": {"b": [1, "x"]}}
    assert read.sha256 == hashlib.sha256(b"a: {b: [1, x]}\n").hexdigest()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a: 1\na: 2\n", ":2:1: duplicate key 'a'"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", ":4:3: duplicate key 'b'"),
        ("a: {b: 1, b: 2}\n", ":1:11: duplicate key 'b'"),
        ("a: [1\nb: 2\n", ":2:2: "),
        ("a: b: c\n", ":1:5: "),
        ("? [1, 2]\n: x\n", "expected a plain key"),
        (b"a: \xff\xfe\n", "UTF-8"),
        ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("\t- x\n", ":1:1: "),
    ],
)
def test_damage_is_refused_with_file_and_place(tmp_path, content, told):
    """Duplicate keys, syntax errors and foreign tags name file, line and column."""
    with pytest.raises(DocumentError) as refusal:
        load(tmp_path, content)
    assert str(refusal.value).startswith(str(tmp_path / "file.yaml"))
    assert told in str(refusal.value)


def test_missing_file_is_refused(tmp_path):
    """A file that is not there is an error with its name."""
    with pytest.raises(DocumentError, match="nowhere"):
        yamlfile.load(tmp_path / "nowhere.yaml")


def test_merged_mapping_may_be_overridden(tmp_path):
    """A key beside a merge overrides what is merged, and is no duplicate."""
    read = load(tmp_path, "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n")
    assert read.data["b"] == {"x": 1, "y": 3}


def test_nearest_name_is_suggested():
    """An unknown name is answered with the one it resembles, if any."""
    assert text.nearest("silu_and_mull", ["silu_and_mul"]) == " (did you mean silu_and_mul?)"
    assert text.nearest("x", ["silu_and_mul"]) == ""

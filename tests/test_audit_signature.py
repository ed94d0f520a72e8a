"""Signatures are read from text, whatever a header looks like."""

from __future__ import annotations

import pytest

from fusion.audit import signature
from fusion.audit.signature import Signature

BODY = "\n    return None\n"


@pytest.mark.parametrize(
    "header, expected",
    [
        ("def f():", Signature("f", ())),
        ("async def f(a):", Signature("f", ("a",))),
        ("def f(a, /, b, *, c=1):  # a: b", Signature("f", ("a", "b"), ("c",))),
        ("def f(a, *rest, **more):", Signature("f", ("a",), (), True)),
        ("def f(a: dict[str, int] = {1: 2}) -> dict[str, int]:", Signature("f", ("a",))),
        (
            "def f(\n    a=(lambda x: (x)),  # first:\n    b=')',\n) -> 'x:':",
            Signature("f", ("a", "b")),
        ),
    ],
)
def test_header_is_read_in_every_shape(header, expected):
    """Defaults, annotations and comments with colons and parentheses do not end a header."""
    assert signature.find(header + BODY, ["f"]) == expected


def test_first_name_that_is_defined_wins():
    """The names are tried in their order, not in that of the module."""
    text = f"def alias(x):{BODY}\ndef name(y):{BODY}"
    found = signature.find(text, ["absent", "name", "alias"])
    assert found == Signature("name", ("y",))


@pytest.mark.parametrize(
    "text", ["", "f = g\n", "class A:\n    def f(self):\n        pass\n", "def f("]
)
def test_what_is_no_function_of_a_module_has_no_signature(text):
    """An assignment, a method and a torn header are not taken for the function."""
    assert signature.find(text, ["f"]) is None

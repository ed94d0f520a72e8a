"""Read from a module's text what its functions take, without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

# A line that may end a function's header.
_END = re.compile(r":[ \t]*(?:#.*)?$", re.M)


@dataclass(frozen=True)
class Signature:
    """Hold a function's parameters: ``positional`` in order, ``keywords`` that have no place.

    ``is_open`` tells that it takes further keywords, of which the text says nothing.
    """

    name: str
    positional: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    is_open: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """List all parameters."""
        return self.positional + self.keywords


def find(text: str, names: Iterable[str]) -> Signature | None:
    """Return the signature of the first of these functions that a module defines at its top."""
    for name in names:
        defined = re.search(rf"^(?:async )?def {re.escape(name)}\(", text, re.M)
        header = _header(text, defined.start()) if defined else None
        if header is not None:
            return _signature(header)
    return None


def _header(text: str, start: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Parse a function's header alone: up to the first line's end that makes it whole."""
    for end in _END.finditer(text, start):
        try:
            node = ast.parse(f"{text[start : end.start()]}: pass").body[0]
        except (SyntaxError, ValueError):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return node
    return None


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    held = node.args
    return Signature(
        node.name,
        tuple(each.arg for each in (*held.posonlyargs, *held.args)),
        tuple(each.arg for each in held.kwonlyargs),
        held.kwarg is not None,
    )

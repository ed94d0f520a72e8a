"""Read a YAML file strictly: what is ambiguous or damaged is an error with its line and column."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fusion.errors import Refusal

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(Refusal):
    """Refuse a file that cannot be read as one unambiguous YAML document."""


@dataclass(frozen=True)
class Document:
    """Hold the values of a file and the SHA-256 of exactly the bytes they were parsed from."""

    path: Path
    data: Any
    sha256: str


class _Loader(_BASE):  # type: ignore[misc]
    """Refuse a key that is given twice in one mapping, and keys that cannot be looked up."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Check a mapping as it was written, before what it merges (``<<``) joins it."""
        checked = self.__dict__.setdefault("_checked", set())
        if id(node) not in checked:
            checked.add(id(node))
            self._check(node)
        super().flatten_mapping(node)

    def _check(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key_node, _ in node.value:
            is_merge = key_node.tag == "tag:yaml.org,2002:merge"
            key = "<<" if is_merge else self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict, set)):
                self._refuse(key_node, f"expected a plain key, found {key!r}")
            if key in seen:
                self._refuse(key_node, f"duplicate key {key!r}")
            seen.add(key)

    def _refuse(self, node: yaml.Node, complaint: str) -> None:
        raise yaml.constructor.ConstructorError(None, None, complaint, node.start_mark)


def load(path: Path) -> Document:
    """Read a file; raise DocumentError naming the file, and the line and column where it can."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"{path}: expected a readable YAML file, found: {error}") from error
    return Document(path, _parsed(path, content), hashlib.sha256(content).hexdigest())


def _parsed(path: Path, content: bytes) -> Any:
    try:
        return yaml.load(content, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise DocumentError(
            f"{where}: {error.problem or error.context}; correct the YAML"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise DocumentError(f"{path}: expected UTF-8 YAML, found: {told}") from error

"""Durable files: a file appears as a whole or not at all, and JSON is strict."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusion.errors import Refusal


class FileError(Refusal):
    """Refuse an output folder that cannot be written, or a run's folder that cannot be read."""


def check_writable(output: Path) -> None:
    """Refuse an output folder that could not be made or written, touching nothing."""
    existing = next(path for path in (output, *output.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise FileError(
            f"{output}: expected a folder that can be written, found that {existing} is not one; "
            "choose another with --output-dir"
        )


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON durably: NaN and infinity are a ValueError."""
    write(path, json_text(value))


def json_text(value: Any) -> str:
    """Write a value as strict, readable JSON."""
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False, default=str) + "\n"


def write(path: Path, text: str) -> None:
    """Replace a text file as a whole: temporary name, fsync, rename, fsync of the folder."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file as a whole, as ``write`` does."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_format(data: Mapping[str, Any], known: int, subject: str) -> None:
    """Refuse what a newer version of this project wrote."""
    if data.get("format", 0) > known:
        raise FileError(
            f"{subject}: expected format {known} or older, found {data['format']}; "
            "read it with the newer version of this project that wrote it"
        )


def read_json(path: Path) -> Any:
    """Read JSON that this project wrote; raise FileError naming the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: expected JSON that a run wrote, found: {error}") from error

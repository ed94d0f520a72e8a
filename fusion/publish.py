"""Publish a set of report files as one: readers see the files of one state, never a mixture.

The names at the top of the output folder are links through ``published``, itself a link to the
folder of one state. Replacing that one link, which is atomic, replaces the whole set; earlier
states stay where they are.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from fusion import files

CURRENT = "published"
STATES = "states"


def publish(output: Path, texts: Mapping[str, str]) -> Path:
    """Make ``texts`` (names to texts) the published set; return the folder of the new state."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    state = output / STATES / name
    state.mkdir(parents=True)
    for file, text in texts.items():
        files.write(state / file, text)
    files.sync_folder(state.parent)
    _link(output / CURRENT, Path(STATES, name))
    for file in texts:
        _link(output / file, Path(CURRENT, file))
    files.sync_folder(output)
    return state


def current(output: Path) -> Path | None:
    """Return the folder of the published state, None when nothing is published."""
    folder = output / CURRENT
    return folder.resolve() if folder.is_dir() else None


def _link(path: Path, target: Path) -> None:
    """Point a link at ``target`` in one step, whatever was there before."""
    if path.is_symlink() and path.readlink() == target:
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(3)}.tmp")
    temporary.symlink_to(target)
    temporary.replace(path)

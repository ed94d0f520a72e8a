"""Keep two runs off one NUMA node, and two runners off one run.

The locks are the kernel's (flock, through filelock): they end with the process that holds them,
however it ends. Beside a node's lock lies a note on who holds it, for whoever waits.
"""

from __future__ import annotations

import getpass
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from fusion.errors import Refusal

POLL_SECONDS = 0.2


class LockError(Refusal):
    """Refuse to work where another run works already."""


def folder() -> Path:
    """Return the host's folder of locks, which every user can write.

    It has no sticky bit: with one, Linux keeps a user from opening another user's file for writing.
    """
    path = Path(tempfile.gettempdir()) / "fusion-metrics-locks"
    path.mkdir(exist_ok=True)
    with suppress(PermissionError):
        path.chmod(0o777)
    return path


@contextmanager
def nodes(
    ids: Iterable[int], run: str, wait: bool, tell: Callable[[str], None], check: Callable[[], None]
) -> Iterator[None]:
    """Hold the locks of NUMA nodes; wait for them, telling for whom, or raise LockError.

    ``check`` is called while waiting and may raise.
    """
    with ExitStack() as held:
        for id_ in sorted(set(ids)):
            held.enter_context(_node(id_, run, wait, tell, check))
        yield


@contextmanager
def _node(
    id_: int, run: str, wait: bool, tell: Callable[[str], None], check: Callable[[], None]
) -> Iterator[None]:
    path = folder() / f"node-{id_}.lock"
    lock = FileLock(path, mode=0o666)
    if not _taken(lock):
        holder = _holder(path)
        if not wait:
            raise LockError(f"NUMA node {id_}: expected it free, found {holder}; drop --no-wait")
        tell(f"Waiting for NUMA node {id_}: {holder}")
        while not _taken(lock):
            check()
            time.sleep(POLL_SECONDS)
    try:
        _note(path, run)
        yield
    finally:
        lock.release()


@contextmanager
def run(path: Path) -> Iterator[None]:
    """Hold a run's own lock; raise LockError when another process works on the run."""
    lock = FileLock(path)
    if not _taken(lock):
        raise LockError(f"{path.parent}: expected a run at rest, found a runner at work on it")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock for the moment that a change takes, waiting for whoever has it."""
    with FileLock(path):
        yield


def is_held(path: Path) -> bool:
    """Tell whether another process holds a lock; a file that cannot be opened is not held."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def _taken(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    with suppress(PermissionError):
        Path(lock.lock_file).chmod(0o666)
    return True


def _note(path: Path, run: str) -> None:
    note = {
        "user": getpass.getuser(),
        "pid": os.getpid(),
        "run": run,
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    beside = path.with_suffix(".json")
    temporary = beside.with_name(f".{beside.name}.{os.getpid()}")
    temporary.write_text(json.dumps(note))
    temporary.replace(beside)


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.with_suffix(".json").read_text())
        process = f"{note['user']} (process {note['pid']})"
        return f"held by {process}, run {note['run']}, since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "held by another run"

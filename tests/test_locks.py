"""Two runs never share a node, and a lock lives as long as the process that holds it."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest

from fusion import locks
from fusion.locks import LockError

NODES = (901, 902)
HOLD = """
import sys
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def hold(nodes, run="mine", wait=False, tell=print, check=lambda: None):
    return locks.nodes(nodes, run, wait, tell, check)


@pytest.fixture
def holder():
    """Start processes that hold a lock until they are killed or their input ends."""
    started = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        with process:  # waits, and closes the pipes
            pass


def test_held_node_is_refused_with_its_holder():
    """Who does not wait is told user, process, run and since when."""
    with hold(NODES, "first"), pytest.raises(LockError) as refusal, hold(NODES[1:]):
        pass
    text = f"NUMA node 902: expected it free, found held by {getpass.getuser()} "
    assert str(refusal.value).startswith(f"{text}(process {os.getpid()}), run first, since ")
    assert re.search(
        r"since \d{4}-\d\d-\d\dT[\d:]+[+-]\d\d:\d\d; drop --no-wait", str(refusal.value)
    )


def test_other_nodes_are_free():
    """A run on one node does not keep others from the next."""
    with hold([901]), hold([902]):
        pass


def test_refused_run_holds_nothing():
    """A run that could not have all its nodes gives back those it had."""
    with hold([902]):
        with pytest.raises(LockError), hold(NODES):
            pass
        with hold([901]):
            pass


def test_node_named_twice_is_locked_once():
    """Two bindings on one node do not wait for each other."""
    with hold([901, 901]):
        pass


def test_locks_end_with_the_context_also_on_an_error():
    """However the work ends, the node is free afterwards."""
    with pytest.raises(ZeroDivisionError), hold([901]):
        raise ZeroDivisionError
    with hold([901]):
        pass


def test_waiting_tells_for_whom_once_and_goes_on_when_the_node_is_free():
    """A second run waits for the first, says so once, and then has the node."""
    told, looks = [], []
    with ExitStack() as first:
        first.enter_context(hold([901], "first"))

        def check():
            looks.append(1)
            if len(looks) == 2:
                first.close()

        with hold([901], "second", True, told.append, check):
            assert "run second" in locks._holder(locks.folder() / "node-901.lock")
    assert len(looks) == 2
    (line,) = told
    assert line.startswith("Waiting for NUMA node 901: held by ")
    assert "run first" in line


def test_waiting_can_be_stopped():
    """What is called while waiting may raise, and the wait ends."""

    def stop():
        raise KeyboardInterrupt

    with (
        hold([901], "first"),
        pytest.raises(KeyboardInterrupt),
        hold([901], "second", True, lambda text: None, stop),
    ):
        pass


def test_lock_of_a_killed_process_is_free(holder):
    """The kernel ends a lock with its process; the file that stays behind means nothing."""
    path = locks.folder() / "node-901.lock"
    process = holder(path)
    with pytest.raises(LockError), hold([901]):
        pass
    process.kill()
    process.wait()
    assert path.exists()
    with hold([901]):
        pass


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", None])
def test_holder_without_a_usable_note_is_another_run(holder, note):
    """A torn or absent note costs the name of the holder, not the refusal."""
    path = locks.folder() / "node-901.lock"
    holder(path)
    beside = path.with_suffix(".json")
    beside.unlink(missing_ok=True)
    if note is not None:
        beside.write_text(note)
    with pytest.raises(LockError, match="found held by another run"), hold([901]):
        pass


def test_note_is_json_of_one_holder():
    """The note beside a lock is replaced whole by each holder."""
    for run in ("first", "second"):
        with hold([901], run):
            note = json.loads((locks.folder() / "node-901.json").read_text())
            assert (note["run"], note["pid"]) == (run, os.getpid())


def test_every_user_can_take_the_locks():
    """The folder and the files of locks are open to all users of the host."""
    with hold([901]):
        assert locks.folder().stat().st_mode & 0o777 == 0o777
        assert (locks.folder() / "node-901.lock").stat().st_mode & 0o666 == 0o666


def test_run_at_work_is_held_and_refused(tmp_path, holder):
    """A run that another process works on is seen so and not worked on twice."""
    path = tmp_path / "run.lock"
    assert not locks.is_held(path)
    assert not path.exists()
    process = holder(path)
    assert locks.is_held(path)
    with pytest.raises(LockError, match="found a runner at work on it"), locks.run(path):
        pass
    process.kill()
    process.wait()
    assert not locks.is_held(path)
    with locks.run(path):
        assert locks.is_held(path)
    assert not locks.is_held(path)


def test_exclusive_waits_for_its_turn(tmp_path, holder):
    """A change waits until the one before it is done."""
    path = tmp_path / "publish.lock"
    process = holder(path)
    done = []
    code = (
        "import sys; from pathlib import Path; from fusion import locks\n"
        "with locks.exclusive(Path(sys.argv[1])): print('mine', flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as second:
        try:
            second.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            done.append("waited")
        process.stdin.close()
        assert second.stdout.readline() == "mine\n"
    assert done == ["waited"]

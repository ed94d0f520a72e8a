"""A child has its own group, its output as bytes, a time limit, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fusion import process
from fusion.command import Command
from fusion.process import Child

# Starts a process of its own that ignores SIGTERM, as the child itself may, and tells its number.
WITH_SLEEPER = """
import signal, subprocess, sys, time
if {ignores}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleeper = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
open("sleeper", "w").write(str(sleeper.pid))
{then}
"""


@pytest.fixture
def start(tmp_path):
    """Start Python code as a child in a folder of its own, and end what a test leaves."""
    started = []

    def begin(code, timeout=60.0, environ=None, **changes):
        command = Command((sys.executable, "-c", code), str(tmp_path), changes)
        child = Child(command, environ or os.environ, tmp_path / "out", timeout)
        started.append(child)
        return child

    yield begin
    for child in started:
        child.kill()


def ended(child):
    deadline = time.monotonic() + 60
    while (ending := child.poll()) is None:
        assert time.monotonic() < deadline, "the child did not end"
        time.sleep(0.02)
    return ending


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "this did not come"
        time.sleep(0.02)


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def sleeper(tmp_path):
    until(lambda: (tmp_path / "sleeper").is_file() and (tmp_path / "sleeper").read_text())
    return int((tmp_path / "sleeper").read_text())


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("pass", 0),
        ("raise SystemExit(5)", 5),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("import os; os.abort()", -6),
    ],
)
def test_ending_has_the_return_code_or_the_signal(start, code, returncode):
    """A child that ends by itself tells its exit code, or minus the signal."""
    ending = ended(start(code))
    assert (ending.returncode, ending.timed_out) == (returncode, False)
    assert ending.seconds > 0


def test_output_of_both_streams_is_kept_as_bytes(start, tmp_path):
    """What a child writes is in the file as it was written, valid text or not."""
    ended(start("import os; os.write(1, b'\\xff\\xfe'); os.write(2, b'\\x00err')"))
    assert (tmp_path / "out").read_bytes() == b"\xff\xfe\x00err"


def test_child_has_its_folder_environment_group_and_no_input(start, tmp_path):
    """A child works in its own folder and session, with its environment and nothing to read."""
    code = (
        "import json, os, sys\n"
        "print(json.dumps([os.getcwd(), os.environ['A'], os.environ['B'], 'C' in os.environ,"
        " os.getpid() == os.getsid(0) == os.getpgid(0), sys.stdin.read()]))"
    )
    ended(start(code, environ={"A": "theirs", "B": "kept"}, A="ours"))
    told = json.loads((tmp_path / "out").read_text())
    assert told == [str(tmp_path), "ours", "kept", False, True, ""]


def test_what_a_child_started_ends_with_it(start, tmp_path):
    """A process that outlives its parent in the group is killed when the child has ended."""
    ended(start(WITH_SLEEPER.format(ignores=False, then="")))
    until(lambda: is_gone(sleeper(tmp_path)))


def test_time_limit_ends_a_child_that_obeys(start):
    """A child over its time gets SIGTERM, and its ending says that its time was up."""
    ending = ended(start("import time; time.sleep(60)", timeout=0.3))
    assert (ending.returncode, ending.timed_out) == (-signal.SIGTERM, True)


def test_child_that_ignores_sigterm_is_killed_with_its_group(start, tmp_path, monkeypatch):
    """After a grace period the whole group is killed, whatever it ignores."""
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    child = start(WITH_SLEEPER.format(ignores=True, then="time.sleep(60)"))
    pid = sleeper(tmp_path)
    child.terminate()
    assert ended(child).returncode == -signal.SIGKILL
    until(lambda: is_gone(pid))


def test_grace_begins_once(start, tmp_path, monkeypatch):
    """Asking again does not put off the end of a child that does not listen."""
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    child = start(WITH_SLEEPER.format(ignores=True, then="time.sleep(60)"))
    sleeper(tmp_path)
    deadline = time.monotonic() + 30
    while child.poll() is None:
        child.terminate()
        assert time.monotonic() < deadline, "the grace period never ended"
        time.sleep(0.02)


def test_child_may_finish_its_work_when_asked_to_end(start, tmp_path):
    """SIGTERM comes first, so that a child can close what it has open."""
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('closed'), sys.exit(3)))\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    child = start(code)
    until(lambda: "ready" in (tmp_path / "out").read_text())
    child.terminate()
    assert ended(child).returncode == 3
    assert "closed" in (tmp_path / "out").read_text()


def test_kill_ends_the_group_at_once(start, tmp_path):
    """Nothing of the group is left after a kill."""
    child = start(WITH_SLEEPER.format(ignores=True, then="time.sleep(60)"))
    pid = sleeper(tmp_path)
    child.kill()
    assert ended(child).returncode == -signal.SIGKILL
    until(lambda: is_gone(pid))


def test_command_that_does_not_exist_is_an_os_error(tmp_path):
    """A command that cannot be started says so at once."""
    with pytest.raises(FileNotFoundError):
        Child(Command(("/nowhere/python",), str(tmp_path), {}), {}, tmp_path / "out", 1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_child_does_not_survive_its_runner(tmp_path):
    """A runner that is killed takes its child along."""
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from fusion.command import Command; from fusion.process import Child\n"
        "here = Path(sys.argv[1])\n"
        "command = Command((sys.executable, '-c', 'import time; time.sleep(60)'), str(here), {})\n"
        "print(Child(command, os.environ, here / 'out', 60)._process.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as runner:
        child = int(runner.stdout.readline())
        assert not is_gone(child)
        runner.kill()
    until(lambda: is_gone(child))

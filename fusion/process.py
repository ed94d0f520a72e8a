"""Start one child in its own process group, watch its time, and leave nothing of it behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from fusion.command import Command
from fusion.outcome import Ending

GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Child:
    """Run a command with its output going straight to a file, as the bytes it writes."""

    def __init__(
        self, command: Command, environ: Mapping[str, str], output: Path, timeout: float
    ) -> None:
        self._timeout = timeout
        self._timed_out = False
        self._kill_at: float | None = None
        self._cpu_seconds: float | None = None
        with output.open("wb") as stream:
            self._started = time.monotonic()
            self._process = subprocess.Popen(
                command.argv,
                cwd=command.folder,
                env=command.applied(environ),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()),
            )

    @property
    def seconds(self) -> float:
        """Return the seconds since the child started."""
        return time.monotonic() - self._started

    def poll(self) -> Ending | None:
        """Return how the child ended, None while it runs; enforce its time limit."""
        returncode = self._reaped()
        if returncode is not None:
            seconds = self.seconds
            self._signal(signal.SIGKILL)
            return Ending(returncode, self._timed_out, seconds, self._cpu_seconds)
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)
        elif self._kill_at is None and now - self._started > self._timeout:
            self._timed_out = True
            self.terminate()
        return None

    def terminate(self) -> None:
        """Ask the whole group to end; what is left after a grace period is killed by ``poll``."""
        if self._kill_at is None:
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + GRACE_SECONDS

    def kill(self) -> None:
        """End the whole group at once."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _reaped(self) -> int | None:
        """Return the exit code once the child has ended, and keep what CPU time it took."""
        if self._process.returncode is None:
            try:
                pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has reaped it
                return self._process.poll()
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._cpu_seconds = usage.ru_utime + usage.ru_stime
        return self._process.returncode

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody of the group is left
            os.killpg(self._process.pid, number)


def _die_with(runner: int) -> None:
    """Have the kernel end this process when the runner is gone, however it went."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != runner:
            os._exit(1)

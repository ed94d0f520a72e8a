"""Bind a child to a NUMA node and CPUs through numactl, and find out whether that works here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fusion import cpulist

PROBE_SECONDS = 20.0


@dataclass(frozen=True)
class Binding:
    """Give one child at a time a NUMA node, None without one, and CPUs, physical cores first."""

    node: int | None
    cpus: tuple[int, ...]


def prefix(binding: Binding) -> tuple[str, ...]:
    """Return the numactl command that runs what follows on the binding's CPUs and memory."""
    cpus = f"--physcpubind={cpulist.render(binding.cpus)}"
    memory = () if binding.node is None else (f"--membind={binding.node}",)
    return ("numactl", cpus, *memory)


def probe(
    binding: Binding, run: Callable[..., subprocess.CompletedProcess[Any]] = subprocess.run
) -> str | None:
    """Try numactl on a binding; return None when it works, else why it does not."""
    command = [*prefix(binding), "true"]
    try:
        done = run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_SECONDS)
    except FileNotFoundError:
        return "numactl is not installed"
    except OSError as error:
        return f"numactl cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"numactl did not answer within {PROBE_SECONDS:g} s"
    return None if done.returncode == 0 else f"numactl: {_complaint(done)}"


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").splitlines()
    told = (line.strip() for line in lines if line.strip())
    return next(told, _ending(done.returncode))


def _ending(code: int) -> str:
    # Some containers kill what they forbid instead of refusing it.
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

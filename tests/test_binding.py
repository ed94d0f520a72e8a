from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusion.binding import Binding, prefix, probe
from fusion.topology import topology


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder that is the whole PATH, for a numactl of the test's own."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, body: str, mode: int = 0o755) -> None:
    """Write a numactl as a shell script."""
    script = folder / "numactl"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(mode)


def test_the_prefix_binds_cpus_and_memory() -> None:
    """A binding becomes one numactl command, as a list and not as a text for a shell."""
    assert prefix(Binding(0, tuple(range(32)))) == (
        "numactl",
        "--physcpubind=0-31",
        "--membind=0",
    )


def test_the_prefix_names_cpus_in_ascending_ranges() -> None:
    """CPUs in their order of preference are written as one ascending list."""
    assert prefix(Binding(8, (88, 92, 89, 90))) == (
        "numactl",
        "--physcpubind=88-90,92",
        "--membind=8",
    )


def test_without_a_node_memory_is_not_bound() -> None:
    """On a machine without NUMA only the CPUs are bound."""
    assert prefix(Binding(None, (0, 1))) == ("numactl", "--physcpubind=0-1")


def test_a_working_numactl_has_no_reason_against_it(on_path: Path) -> None:
    """A numactl that runs its command gives no reason."""
    install(on_path, "exit 0")
    assert probe(Binding(0, (0,))) is None


def test_the_probe_tries_the_binding_itself(on_path: Path) -> None:
    """What is tried is the very prefix that the child gets, not node 0 in its place."""
    install(on_path, f'echo "$*" > {on_path}/asked')
    probe(Binding(3, (24, 25)))
    assert (on_path / "asked").read_text() == "--physcpubind=24-25 --membind=3 true\n"


def test_a_missing_numactl_is_named(on_path: Path) -> None:
    """Where there is no numactl the reason says that it is not installed."""
    assert not list(on_path.iterdir())
    assert probe(Binding(0, (0,))) == "numactl is not installed"


def test_a_numactl_without_permission_is_named(on_path: Path) -> None:
    """A numactl that may not be executed is told from one that is missing."""
    install(on_path, "exit 0", mode=0o644)
    assert probe(Binding(0, (0,))) == "numactl cannot be run: Permission denied"


def test_numactl_forbidden_in_a_container_is_quoted(on_path: Path) -> None:
    """The first thing that numactl complains of is the reason."""
    install(
        on_path,
        "echo >&2; echo 'set_mempolicy: Operation not permitted' >&2;"
        "echo 'setting membind: Operation not permitted' >&2; exit 1",
    )
    assert probe(Binding(0, (0,))) == "numactl: set_mempolicy: Operation not permitted"


def test_a_complaint_that_is_not_utf8_is_quoted(on_path: Path) -> None:
    """Bytes that are not UTF-8 do not stop the probe."""
    install(on_path, r"printf 'op\351ration\n' >&2; exit 1")
    assert probe(Binding(0, (0,))) == "numactl: op�ration"


@pytest.mark.parametrize(
    ("body", "reason"),
    [("exit 3", "numactl: exit code 3"), ("kill -9 $$", "numactl: killed by signal 9")],
)
def test_a_silent_end_is_told_by_its_code(body: str, reason: str, on_path: Path) -> None:
    """Without a word from numactl the reason is its exit code or signal."""
    install(on_path, body)
    assert probe(Binding(0, (0,))) == reason


def test_a_numactl_that_hangs_is_given_up(on_path: Path) -> None:
    """A numactl that does not answer is a reason and not a hang."""
    install(on_path, "while :; do :; done")

    def impatient(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, **{**options, "timeout": 0.1})

    assert probe(Binding(0, (0,)), run=impatient) == "numactl did not answer within 20 s"


@pytest.mark.skipif(shutil.which("numactl") is None, reason="numactl is not installed here")
def test_the_real_numactl_refuses_a_cpu_that_does_not_exist() -> None:
    """The numactl of this machine complains of CPU 99999 in a line of its own."""
    reason = probe(Binding(None, (99999,)))
    assert reason is not None
    assert reason.startswith("numactl: ")


@pytest.mark.skipif(shutil.which("numactl") is None, reason="numactl is not installed here")
def test_the_real_numactl_binds_what_the_prefix_asks_for() -> None:
    """A child behind the prefix of this machine's first node runs on the CPU bound and no other."""
    usable = topology().usable
    if not usable or probe(Binding(usable[0].id, usable[0].cpus[:1])):
        pytest.skip("numactl does not work on this machine")
    binding = Binding(usable[0].id, usable[0].cpus[:1])
    code = "import os; print(*os.sched_getaffinity(0))"
    done = subprocess.run(
        [*prefix(binding), sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env=dict(os.environ),
    )
    assert done.stdout.split() == [str(binding.cpus[0]).encode()]

"""Know the machine's NUMA nodes, and which of their CPUs and memory this process may use."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fusion import cpulist
from fusion.cpulist import CpuListError


@dataclass(frozen=True)
class Node:
    """Describe a NUMA node.

    ``id`` is the kernel's own number, None for a machine that has no NUMA nodes. ``cpus`` are
    those that this process may use: distinct physical cores first, their SMT siblings last.
    ``obstacle`` says why nothing can be bound to the node; None when it can.
    """

    id: int | None
    cpus: tuple[int, ...]
    obstacle: str | None = None


@dataclass(frozen=True)
class Topology:
    """Hold every node that the kernel reports, and the process's own CPUs, cores first.

    Without NUMA ``nodes`` is one Node without an id that has all of ``cpus``.
    """

    nodes: tuple[Node, ...]
    cpus: tuple[int, ...]

    @property
    def numa(self) -> bool:
        """Tell whether the kernel reports NUMA nodes."""
        return any(node.id is not None for node in self.nodes)

    @property
    def usable(self) -> tuple[Node, ...]:
        """List the nodes that a process can be bound to."""
        return tuple(node for node in self.nodes if node.obstacle is None)


def topology(
    sysfs: Path = Path("/sys"),
    allowed: Collection[int] | None = None,
    memory_nodes: Collection[int] | None = None,
) -> Topology:
    """Read the topology from a sysfs tree; what it does not tell is taken as not restricted.

    ``allowed`` are the process's CPUs, by default this process's own. ``memory_nodes`` are the
    nodes it may take memory from, by default those of ``proc/self/status`` beside ``sysfs``.
    """
    system = sysfs / "devices" / "system"
    allowed = own_cpus() if allowed is None else allowed
    if memory_nodes is None:
        memory_nodes = _allowed_memory(sysfs.parent / "proc" / "self" / "status")
    cpus = _cores_first(system / "cpu", _online(system / "cpu", allowed))
    nodes = _nodes(system / "node", cpus, memory_nodes)
    return Topology(nodes or (Node(None, cpus),), cpus)


def own_cpus() -> frozenset[int]:
    """Return the CPUs that this process may run on; all of them where the system cannot tell."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _online(folder: Path, allowed: Collection[int]) -> frozenset[int]:
    # A container's file system may renumber the online CPUs; the affinity is the kernel's own.
    online = frozenset(allowed).intersection(_numbers(folder / "online"))
    return online or frozenset(allowed)


def _cores_first(folder: Path, cpus: Collection[int]) -> tuple[int, ...]:
    cores = _cores(folder, cpus)
    threads: Counter[int] = Counter()
    ranks = {}
    for cpu in sorted(cpus):
        ranks[cpu] = (threads[cores[cpu]], cores[cpu])
        threads[cores[cpu]] += 1
    return tuple(sorted(cpus, key=ranks.__getitem__))


def _cores(folder: Path, cpus: Collection[int]) -> dict[int, int]:
    """Map each CPU to the lowest CPU of its physical core; one read serves all its siblings."""
    cores: dict[int, int] = {}
    for cpu in sorted(cpus):
        if cpu not in cores:
            siblings = {cpu, *_siblings(folder / f"cpu{cpu}" / "topology")}
            cores.update(dict.fromkeys(siblings, min(siblings)))
    return cores


def _siblings(folder: Path) -> tuple[int, ...]:
    # The second is the newer name of the first.
    return _numbers(folder / "thread_siblings_list") or _numbers(folder / "core_cpus_list")


def _nodes(
    folder: Path, cpus: tuple[int, ...], memory_nodes: Collection[int] | None
) -> tuple[Node, ...]:
    ids = _node_ids(folder)
    present = _with_memory(folder, ids)
    allowed = ids if memory_nodes is None else memory_nodes
    nodes = []
    for id_ in ids:
        held = frozenset(_numbers(folder / f"node{id_}" / "cpulist"))
        own = tuple(cpu for cpu in cpus if cpu in held)
        obstacle = _cpu_obstacle(held, own) or _memory_obstacle(id_, present, allowed)
        nodes.append(Node(id_, own, obstacle))
    return tuple(nodes)


def _cpu_obstacle(held: Collection[int], own: Collection[int]) -> str | None:
    if not held:
        return "it has no online CPU"
    if not own:
        return f"this process may run on none of its CPUs ({cpulist.render(held)})"
    return None


def _memory_obstacle(id_: int, present: Collection[int], allowed: Collection[int]) -> str | None:
    if id_ not in present:
        return "it has no memory"
    if id_ not in allowed:
        return f"this process may not use its memory (Mems_allowed: {cpulist.render(allowed)})"
    return None


def _node_ids(folder: Path) -> tuple[int, ...]:
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return ()
    return tuple(sorted(int(name[4:]) for name in names if re.fullmatch("node[0-9]+", name)))


def _with_memory(folder: Path, ids: tuple[int, ...]) -> tuple[int, ...]:
    empty = re.compile(r"MemTotal:\s+0 kB")
    return _numbers(folder / "has_memory") or tuple(
        id_ for id_ in ids if not empty.search(_text(folder / f"node{id_}" / "meminfo"))
    )


def _allowed_memory(status: Path) -> tuple[int, ...] | None:
    line = re.search(r"^Mems_allowed_list:(.*)$", _text(status), re.M)
    return cpulist.parse(line[1]) if line else None


def _numbers(path: Path) -> tuple[int, ...]:
    try:
        return cpulist.parse(_text(path))
    except CpuListError:
        return ()


def _text(path: Path) -> str:
    try:
        # Some kernels end their lists with a NUL.
        return path.read_text(encoding="ascii", errors="replace").rstrip("\n\0")
    except OSError:
        return ""

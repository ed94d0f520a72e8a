"""Place children on the machine: how many at a time, on which NUMA nodes, with how many threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusion import cpulist
from fusion.binding import Binding, prefix, probe
from fusion.cpulist import CpuListError
from fusion.errors import Refusal
from fusion.topology import Node, Topology, topology

__all__ = [
    "MAX_OMP_THREADS",
    "Binding",
    "Node",
    "NumaError",
    "Placement",
    "Topology",
    "bindings",
    "parse_nodes",
    "place",
    "prefix",
    "probe",
    "topology",
]

MAX_OMP_THREADS = 32


class NumaError(Refusal):
    """Refuse nodes, threads or jobs that the machine cannot give."""


@dataclass(frozen=True)
class Placement:
    """Say where children run: one at a time per binding, each with ``omp_threads`` threads.

    ``reason`` says why they are not pinned, None when they are. ``nodes`` are all that the
    kernel reports, the ones left out with their obstacle.
    """

    bindings: tuple[Binding, ...]
    omp_threads: int
    pinned: bool
    reason: str | None
    nodes: tuple[Node, ...]

    def prefix(self, binding: Binding) -> tuple[str, ...]:
        """Return what goes in front of the child's command; nothing when unpinned."""
        return prefix(binding) if self.pinned else ()


def parse_nodes(text: str) -> tuple[int, ...]:
    """Return the nodes of a text such as ``0,1`` or ``0-3``, in its order.

    Raise NumaError with what was expected; the caller adds the subject and what it found.
    """
    try:
        nodes = cpulist.parse(text)
    except CpuListError:
        nodes = ()
    if not nodes:
        raise NumaError("node numbers such as 0,1 or 0-3")
    if twice := _twice(nodes):
        raise NumaError(f"each node once (not {twice} twice)")
    return nodes


def bindings(
    topology: Topology,
    nodes: Sequence[int] | None,
    omp_threads: int | None,
    jobs: int | None,
) -> tuple[tuple[Binding, ...], int]:
    """Return one binding per job, and the threads of each: its node's first CPUs.

    None for ``nodes``: every usable one; for ``omp_threads``: the CPUs of the smallest node,
    at most 32; for ``jobs``: one per node, else the first ``jobs`` nodes. Raise NumaError.
    """
    chosen = _first(_chosen(topology, nodes), jobs)
    threads = _threads(omp_threads, chosen)
    return tuple(Binding(node.id, node.cpus[:threads]) for node in chosen), threads


def place(
    topology: Topology,
    nodes: Sequence[int] | None,
    omp_threads: int | None,
    jobs: int | None,
    probe: Callable[[Binding], str | None] = probe,
) -> Placement:
    """Pin to the nodes asked for, or raise NumaError; with none asked for, pin where possible.

    Otherwise there is one unpinned binding with all the process's own CPUs, and the reason.
    """
    reason = _reason_against(topology, nodes, jobs, probe)
    if reason is None:
        bound, threads = bindings(topology, nodes, omp_threads, jobs)
        return Placement(bound, threads, True, None, topology.nodes)
    if nodes is None:
        return _unpinned(topology, omp_threads, jobs, reason)
    raise NumaError(
        f"--numa-nodes: expected to pin to {cpulist.render(nodes)}, found: {reason}; "
        "install numactl, run on the host instead of in a container, or drop the option"
    )


def _reason_against(
    topology: Topology,
    nodes: Sequence[int] | None,
    jobs: int | None,
    probe: Callable[[Binding], str | None],
) -> str | None:
    if nodes is None and not topology.usable:
        return f"no NUMA node can be used ({_obstacles(topology)})"
    chosen = _chosen(topology, nodes)[:jobs]
    reasons = (probe(Binding(node.id, node.cpus)) for node in chosen)
    return next((reason for reason in reasons if reason is not None), None)


def _unpinned(
    topology: Topology, omp_threads: int | None, jobs: int | None, reason: str
) -> Placement:
    if jobs is not None and jobs != 1:
        raise NumaError(
            f"--jobs: expected 1, as children that are not pinned disturb each other ({reason}), "
            f"found {jobs}; drop the option or make numactl work"
        )
    everything = Node(None, topology.cpus)
    threads = _threads(omp_threads, [everything])
    return Placement((Binding(None, everything.cpus),), threads, False, reason, topology.nodes)


def _chosen(topology: Topology, nodes: Sequence[int] | None) -> tuple[Node, ...]:
    if nodes is None:
        if not topology.usable:
            raise NumaError(f"NUMA nodes: expected one to use, found none: {_obstacles(topology)}")
        return topology.usable
    if not nodes:
        raise NumaError("--numa-nodes: expected a node, found none; name one or drop the option")
    if twice := _twice(nodes):
        raise NumaError(f"--numa-nodes: expected each node once, found {twice} twice; name it once")
    return tuple(_node(topology, id_) for id_ in nodes)


def _node(topology: Topology, id_: int) -> Node:
    known = {node.id: node for node in topology.nodes}
    usable = cpulist.render(node.id for node in topology.usable if node.id is not None)
    if id_ in known and known[id_].obstacle is None:
        return known[id_]
    found = f"{id_}: {known[id_].obstacle}" if id_ in known else f"{id_}, which does not exist"
    expected = f"nodes of {usable}" if usable else "no node, as this machine has none to bind to"
    raise NumaError(
        f"--numa-nodes: expected {expected}, found {found}; correct the list or drop the option"
    )


def _first(chosen: tuple[Node, ...], jobs: int | None) -> tuple[Node, ...]:
    if jobs is None or 1 <= jobs <= len(chosen):
        return chosen[:jobs]
    raise NumaError(
        f"--jobs: expected 1 to {len(chosen)}, one child per NUMA node, found {jobs}; "
        "ask for fewer or name more nodes with --numa-nodes"
    )


def _threads(omp_threads: int | None, chosen: Sequence[Node]) -> int:
    smallest = min(chosen, key=lambda node: len(node.cpus))
    most = min(MAX_OMP_THREADS, len(smallest.cpus))
    if omp_threads is None:
        return most
    if 1 <= omp_threads <= most:
        return omp_threads
    where = "this process" if smallest.id is None else f"node {smallest.id}"
    raise NumaError(
        f"--omp-threads: expected 1 to {most} ({where} has {len(smallest.cpus)} CPUs for it; "
        f"{MAX_OMP_THREADS} is the limit anywhere), found {omp_threads}; ask for fewer"
    )


def _twice(nodes: Sequence[int]) -> str:
    return cpulist.render(node for node, count in Counter(nodes).items() if count > 1)


def _obstacles(topology: Topology) -> str:
    return "; ".join(f"node {node.id}: {node.obstacle}" for node in topology.nodes)

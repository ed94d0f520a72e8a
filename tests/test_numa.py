from __future__ import annotations

from pathlib import Path

import pytest

from fusion.binding import Binding
from fusion.errors import Refusal
from fusion.numa import NumaError, Placement, bindings, parse_nodes, place
from fusion.topology import Node, Topology, topology

# Cores 0-3 and 8-11 with siblings 16 higher; node 2 is smaller, node 5 has no CPUs.
MACHINE = Topology(
    nodes=(
        Node(0, (0, 1, 2, 3, 16, 17, 18, 19)),
        Node(1, (8, 9, 10, 11, 24, 25, 26, 27)),
        Node(2, (12, 13)),
        Node(5, (), "it has no online CPU"),
    ),
    cpus=(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 24, 25, 26, 27),
)
WIDE = Topology((Node(0, tuple(range(38))), Node(1, tuple(range(38, 76)))), tuple(range(76)))
PLAIN = Topology((Node(None, (0, 1, 2)),), (0, 1, 2))
CLOSED = Topology((Node(0, (0, 1), "this process may not use its memory"),), (0, 1))


def works(binding: Binding) -> None:
    """Find nothing against any binding."""


def forbidden(binding: Binding) -> str:
    """Find what a container says."""
    return "numactl: set_mempolicy: Operation not permitted"


def refusal(topology: Topology, *asked: object) -> str:
    """Return the message with which bindings are refused."""
    with pytest.raises(NumaError) as caught:
        bindings(topology, *asked)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "nodes"), [("0,1", (0, 1)), ("0-3", (0, 1, 2, 3)), ("3,1", (3, 1)), ("0, 8", (0, 8))]
)
def test_nodes_are_parsed_in_the_order_asked_for(text: str, nodes: tuple[int, ...]) -> None:
    """The text of a request gives the nodes in its order."""
    assert parse_nodes(text) == nodes


@pytest.mark.parametrize("text", ["x", "", " ", "0,", "-1", "3-0", "all", "0;1"])
def test_text_that_names_no_nodes_is_refused(text: str) -> None:
    """What is no list of nodes is refused with what the option takes."""
    with pytest.raises(NumaError, match="node numbers such as 0,1 or 0-3"):
        parse_nodes(text)


@pytest.mark.parametrize(("text", "twice"), [("0,0", "0"), ("0-3,2,5,3", "2-3")])
def test_text_that_names_a_node_twice_is_refused(text: str, twice: str) -> None:
    """A node that is named twice is refused by its number."""
    with pytest.raises(NumaError, match=rf"each node once .*not {twice} twice"):
        parse_nodes(text)


def test_a_long_list_is_judged_in_one_pass() -> None:
    """A range over every possible number is an answer and not a wait."""
    assert len(parse_nodes("0-99999")) == 100_000


def test_its_error_is_a_refusal() -> None:
    """What the machine cannot give ends a command as every other refused input does."""
    assert issubclass(NumaError, Refusal)


def test_by_default_every_usable_node_has_a_binding() -> None:
    """Each node gets one binding, with as many CPUs as the smallest of them has."""
    assert bindings(MACHINE, None, None, None) == (
        (Binding(0, (0, 1)), Binding(1, (8, 9)), Binding(2, (12, 13))),
        2,
    )


def test_nodes_are_bound_in_the_order_asked_for() -> None:
    """The nodes asked for stand in the order of the request."""
    bound, threads = bindings(MACHINE, (1, 0), None, None)
    assert ([binding.node for binding in bound], threads) == ([1, 0], 8)


def test_a_binding_has_the_first_cpus_of_its_node() -> None:
    """With fewer threads than CPUs the cores are taken and the siblings left."""
    bound, threads = bindings(MACHINE, (0, 1), 4, None)
    assert (bound, threads) == ((Binding(0, (0, 1, 2, 3)), Binding(1, (8, 9, 10, 11))), 4)


def test_threads_are_32_where_nodes_are_larger() -> None:
    """A node of 38 CPUs gets 32 threads by default."""
    bound, threads = bindings(WIDE, None, None, None)
    assert threads == 32
    assert bound[1].cpus == tuple(range(38, 70))


def test_fewer_jobs_take_the_first_nodes() -> None:
    """One job runs on the first node, with the threads that this node can hold."""
    assert bindings(MACHINE, None, None, 1) == ((Binding(0, MACHINE.nodes[0].cpus),), 8)


def test_an_unused_small_node_does_not_limit_the_threads() -> None:
    """A node that no job uses is not counted as the smallest."""
    bound, threads = bindings(MACHINE, None, 8, 2)
    assert ([binding.node for binding in bound], threads) == ([0, 1], 8)


@pytest.mark.parametrize("jobs", [4, 0, -1])
def test_jobs_without_a_node_each_are_refused(jobs: int) -> None:
    """More jobs than nodes, or none, are refused with the number that fits."""
    message = refusal(MACHINE, None, None, jobs)
    assert message.startswith("--jobs: expected 1 to 3, one child per NUMA node")
    assert f"found {jobs}" in message


def test_more_jobs_than_the_nodes_asked_for_are_refused() -> None:
    """Jobs are counted against the nodes of the request."""
    assert "--jobs: expected 1 to 1" in refusal(MACHINE, (1,), None, 2)


def test_more_threads_than_cpus_are_refused() -> None:
    """Threads that do not fit one of the nodes are refused, naming that node and its CPUs."""
    message = refusal(MACHINE, (0, 2), 3, None)
    assert message.startswith("--omp-threads: expected 1 to 2 (node 2 has 2 CPUs")
    assert "found 3" in message


@pytest.mark.parametrize("threads", [33, 64, 0, -4])
def test_threads_beyond_the_limit_are_refused(threads: int) -> None:
    """Even where CPUs abound, no more than 32 threads are accepted, and no fewer than one."""
    message = refusal(WIDE, None, threads, None)
    assert message.startswith("--omp-threads: expected 1 to 32")
    assert f"found {threads};" in message


def test_a_node_that_does_not_exist_is_refused() -> None:
    """An unknown node is refused with those that can be used."""
    message = refusal(MACHINE, (0, 9), None, None)
    assert message.startswith("--numa-nodes: expected nodes of 0-2, found 9, which does not exist")


def test_a_node_without_cpus_is_refused_with_the_reason() -> None:
    """A node that exists and cannot be used is refused with its obstacle."""
    message = refusal(MACHINE, (5,), None, None)
    assert "expected nodes of 0-2, found 5: it has no online CPU" in message


def test_a_node_named_twice_is_refused() -> None:
    """A node is bound once at most."""
    message = refusal(MACHINE, (1, 0, 1), None, None)
    assert message.startswith("--numa-nodes: expected each node once, found 1 twice")


def test_an_empty_request_is_refused() -> None:
    """A request for no node at all is no request for every node."""
    assert refusal(MACHINE, (), None, None).startswith("--numa-nodes: expected a node, found none")


def test_a_node_is_refused_on_a_machine_without_any() -> None:
    """Where the kernel has no NUMA nodes even node 0 is refused."""
    message = refusal(PLAIN, (0,), None, None)
    assert "expected no node, as this machine has none to bind to, found 0" in message


def test_bindings_need_a_usable_node() -> None:
    """Where every node has an obstacle, the message lists them."""
    assert "node 0: this process may not use its memory" in refusal(CLOSED, None, None, None)


def test_a_machine_without_numa_binds_cpus_alone() -> None:
    """Without NUMA there is one binding, which names no node."""
    assert bindings(PLAIN, None, None, None) == ((Binding(None, (0, 1, 2)),), 3)


def test_children_are_pinned_where_numactl_works() -> None:
    """With a numactl that works the placement holds the bindings and no reason."""
    placement = place(WIDE, None, 4, None, probe=works)
    assert placement == Placement(
        (Binding(0, (0, 1, 2, 3)), Binding(1, (38, 39, 40, 41))), 4, True, None, WIDE.nodes
    )


def test_a_pinned_child_has_the_prefix_and_an_unpinned_one_has_none() -> None:
    """The prefix of a placement is empty when nothing is pinned."""
    pinned = place(PLAIN, None, 2, None, probe=works)
    unpinned = place(PLAIN, None, 2, None, probe=forbidden)
    assert pinned.prefix(pinned.bindings[0]) == ("numactl", "--physcpubind=0-1")
    assert unpinned.prefix(unpinned.bindings[0]) == ()


def test_without_numactl_everything_is_unpinned_with_the_reason() -> None:
    """Not asked for, pinning that is forbidden leaves one binding of all CPUs and says why."""
    placement = place(MACHINE, None, None, None, probe=forbidden)
    assert placement == Placement(
        (Binding(None, MACHINE.cpus),), 18, False, forbidden(Binding(0, ())), MACHINE.nodes
    )


def test_one_node_that_fails_leaves_everything_unpinned() -> None:
    """A reason against the second of two nodes counts for both."""
    placement = place(WIDE, None, None, None, lambda at: "node 1 fails" if at.node else None)
    assert (placement.pinned, placement.reason) == (False, "node 1 fails")


def test_only_the_nodes_in_use_are_probed() -> None:
    """A node that no job uses cannot spoil the others."""
    assert place(WIDE, None, None, 1, lambda at: "fails" if at.node else None).pinned


def test_without_a_usable_node_everything_is_unpinned() -> None:
    """Where no node can be used, numactl is not tried and the obstacles are the reason."""
    placement = place(CLOSED, None, None, None, probe=works)
    assert (placement.pinned, placement.omp_threads) == (False, 2)
    assert "node 0: this process may not use its memory" in str(placement.reason)


def test_nodes_asked_for_must_work() -> None:
    """Asked for by name, nodes that cannot be pinned are refused with reason and remedies."""
    with pytest.raises(NumaError) as caught:
        place(MACHINE, (0, 1), None, None, probe=forbidden)
    message = str(caught.value)
    assert message.startswith("--numa-nodes: expected to pin to 0-1, found: numactl: set_mempolicy")
    assert "install numactl, run on the host instead of in a container, or drop the option" in (
        message
    )


def test_an_unknown_node_is_refused_before_numactl_is_tried() -> None:
    """A wrong request is refused as such on a machine without numactl too."""
    with pytest.raises(NumaError, match="found 9, which does not exist"):
        place(MACHINE, (9,), None, None, probe=forbidden)


def test_unpinned_children_do_not_run_side_by_side() -> None:
    """Several jobs are refused where nothing keeps them apart, with the reason."""
    with pytest.raises(NumaError, match=r"--jobs: expected 1, .*Operation not permitted.* found 2"):
        place(MACHINE, None, None, 2, probe=forbidden)
    assert place(MACHINE, None, None, 1, probe=forbidden).bindings == (Binding(None, MACHINE.cpus),)


def test_unpinned_threads_are_counted_over_the_whole_process() -> None:
    """Threads too many for a node run unpinned when the process has the CPUs, else are refused."""
    assert place(MACHINE, None, 12, None, probe=forbidden).omp_threads == 12
    with pytest.raises(NumaError, match=r"--omp-threads: expected 1 to 18 \(this process has 18"):
        place(MACHINE, None, 19, None, probe=forbidden)


def test_unpinned_threads_stay_at_32() -> None:
    """Without pinning the default is at most 32 threads as well."""
    assert place(WIDE, None, None, None, probe=forbidden).omp_threads == 32


def test_this_machine_places_children_one_way_or_the_other() -> None:
    """On the machine that runs the tests children are pinned, or there is a reason."""
    placement = place(topology(), None, None, None)
    assert placement.bindings[0].cpus
    assert placement.pinned == (placement.reason is None)


def test_without_numactl_on_the_path_a_machine_is_unpinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where PATH has no numactl, the real probe's reason is the placement's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    placement = place(WIDE, None, None, None)
    assert (placement.pinned, placement.reason) == (False, "numactl is not installed")

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fusion.numa import bindings, prefix
from fusion.topology import Node, Topology, own_cpus, topology

RECORDED = Path(__file__).parent / "resources" / "sysfs"


def unpack(name: str, folder: Path) -> Path:
    """Write a recorded machine's files below a folder; return its sysfs."""
    for line in (RECORDED / f"{name}.txt").read_text().splitlines():
        if not line.startswith("#"):
            path, content = line.split("\t", 1)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content.encode().decode("unicode_escape"))
    return folder / "sys"


def cpus_of(found: Topology) -> dict[int | None, tuple[int, ...]]:
    """Map each node to its CPUs in their order."""
    return {node.id: node.cpus for node in found.nodes}


def obstacles_of(found: Topology) -> dict[int | None, str]:
    """Map each node that cannot be used to the reason."""
    return {node.id: node.obstacle for node in found.nodes if node.obstacle}


def test_siblings_numbered_far_apart_come_last(tmp_path: Path) -> None:
    """With siblings 0,64 a node's cores 0-31 come before their second threads 64-95."""
    found = topology(unpack("two-sockets-smt-split", tmp_path), range(128))
    assert cpus_of(found) == {
        0: (*range(32), *range(64, 96)),
        1: (*range(32, 64), *range(96, 128)),
    }


def test_siblings_numbered_side_by_side_come_last(tmp_path: Path) -> None:
    """With siblings 0,1 a node's even CPUs come before its odd ones."""
    found = topology(unpack("two-sockets-smt-adjacent", tmp_path), range(32))
    assert cpus_of(found) == {
        0: (0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15),
        1: (16, 18, 20, 22, 24, 26, 28, 30, 17, 19, 21, 23, 25, 27, 29, 31),
    }


@pytest.mark.parametrize(
    ("machine", "threads", "commands"),
    [
        (
            "two-sockets-smt-split",
            32,
            ["--physcpubind=0-31 --membind=0", "--physcpubind=32-63 --membind=1"],
        ),
        (
            "two-sockets-smt-adjacent",
            8,
            [
                "--physcpubind=0,2,4,6,8,10,12,14 --membind=0",
                "--physcpubind=16,18,20,22,24,26,28,30 --membind=1",
            ],
        ),
    ],
)
def test_a_thread_per_core_takes_every_core_of_a_socket(
    machine: str, threads: int, commands: list[str], tmp_path: Path
) -> None:
    """However siblings are numbered, as many threads as cores are bound to distinct cores."""
    found = topology(unpack(machine, tmp_path), range(128))
    bound, _ = bindings(found, None, threads, None)
    assert [" ".join(prefix(binding)[1:]) for binding in bound] == commands


def test_a_second_thread_comes_first_where_its_core_has_no_other(tmp_path: Path) -> None:
    """A core of which the process has only the second thread counts as a core of its own."""
    found = topology(unpack("two-sockets-smt-split", tmp_path), {0, 64, 65, 66, 2})
    assert found.cpus == (0, 65, 2, 64, 66)


def test_an_arm_machine_of_304_cores_has_8_nodes_of_38(tmp_path: Path) -> None:
    """A many-node Arm machine binds the first 32 of each node's 38 cores by default."""
    found = topology(unpack("arm-304", tmp_path), range(304))
    assert cpus_of(found) == {node: tuple(range(38 * node, 38 * node + 38)) for node in range(8)}
    bound, threads = bindings(found, None, None, None)
    assert (len(bound), threads) == (8, 32)
    assert prefix(bound[7]) == ("numactl", "--physcpubind=266-297", "--membind=7")


def test_lists_that_end_with_a_nul_are_read(tmp_path: Path) -> None:
    """A kernel that ends its lists with a NUL loses neither nodes nor siblings."""
    sysfs = unpack("two-sockets-smt-adjacent", tmp_path)
    for path in [*sysfs.rglob("cpulist"), *sysfs.rglob("thread_siblings_list")]:
        path.write_text(path.read_text() + "\0")
    assert cpus_of(topology(sysfs, range(4))) == {0: (0, 2, 1, 3), 1: ()}


def test_a_cpuset_without_node_0_keeps_the_real_ids(tmp_path: Path) -> None:
    """Inside a cpuset the nodes left keep the ids by which numactl knows them."""
    found = topology(unpack("cpuset-without-node-0", tmp_path), range(8, 32))
    assert [node.id for node in found.usable] == [1, 2]
    bound, _ = bindings(found, None, None, None)
    assert prefix(bound[0]) == ("numactl", "--physcpubind=8-15", "--membind=1")


def test_nodes_outside_the_cpuset_are_left_out_with_the_reason(tmp_path: Path) -> None:
    """A node whose CPUs or memory the process may not use is kept with the reason why."""
    found = topology(unpack("cpuset-without-node-0", tmp_path), range(8, 32))
    assert obstacles_of(found) == {
        0: "this process may run on none of its CPUs (0-7)",
        3: "this process may not use its memory (Mems_allowed: 1-2)",
    }


def test_the_memory_allowed_can_be_given(tmp_path: Path) -> None:
    """The memory nodes given stand before those that the process's status lists."""
    sysfs = unpack("cpuset-without-node-0", tmp_path)
    found = topology(sysfs, range(32), memory_nodes={0, 3})
    assert [node.id for node in found.usable] == [0, 3]


def test_all_memory_is_allowed_where_no_status_tells(tmp_path: Path) -> None:
    """Without a status of the process beside sysfs no node's memory counts as forbidden."""
    sysfs = unpack("cpuset-without-node-0", tmp_path)
    (tmp_path / "proc" / "self" / "status").unlink()
    assert len(topology(sysfs, range(32)).usable) == 4


def test_a_node_of_memory_alone_is_no_candidate(tmp_path: Path) -> None:
    """A node with CXL memory and no CPU is known and left out."""
    found = topology(unpack("memory-only-node", tmp_path), range(8))
    assert [node.id for node in found.usable] == [0, 1]
    assert obstacles_of(found) == {2: "it has no online CPU"}


@pytest.mark.parametrize("listed", [True, False])
def test_a_node_without_memory_is_no_candidate(listed: bool, tmp_path: Path) -> None:
    """A node with CPUs and no memory is left out, by has_memory or else by its meminfo."""
    sysfs = unpack("node-without-memory", tmp_path)
    if not listed:
        (sysfs / "devices/system/node/has_memory").unlink()
    assert obstacles_of(topology(sysfs, range(4))) == {1: "it has no memory"}


def test_offline_cpus_are_not_used(tmp_path: Path) -> None:
    """Offline CPUs are in no node, a sibling takes its core's place, a dark node is left out."""
    found = topology(unpack("offline-cpus", tmp_path), range(12))
    assert found.cpus == (0, 2, 3, 7, 8, 9)
    assert cpus_of(found) == {0: (0, 7), 1: (2, 3, 8, 9), 2: ()}
    assert obstacles_of(found) == {2: "it has no online CPU"}


def test_an_online_list_of_other_cpus_is_not_believed(tmp_path: Path) -> None:
    """When a container's online list holds none of the process's CPUs, the affinity stands."""
    sysfs = unpack("two-sockets-smt-split", tmp_path)
    (sysfs / "devices/system/cpu/online").write_text("0-1\n")
    assert topology(sysfs, {5, 6}).cpus == (5, 6)


def test_ids_with_gaps_stay_as_they_are(tmp_path: Path) -> None:
    """Nodes 0 and 8 of a POWER machine keep their ids, and its GPUs' memory is left out."""
    found = topology(unpack("power-sparse-ids", tmp_path), range(104))
    assert [node.id for node in found.usable] == [0, 8]
    assert list(obstacles_of(found)) == [*range(250, 256)]


def test_four_threads_a_core_come_in_turns(tmp_path: Path) -> None:
    """With SMT4 all first threads come before all second ones, and so on."""
    found = topology(unpack("power-sparse-ids", tmp_path), range(104))
    assert cpus_of(found)[8][:6] == (88, 92, 96, 100, 89, 93)


def test_nodes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Node 8 comes before node 250, as numbers and not as texts."""
    found = topology(unpack("power-sparse-ids", tmp_path), range(104))
    assert [node.id for node in found.nodes] == [0, 8, *range(250, 256)]


def test_without_nodes_there_is_one_without_an_id(tmp_path: Path) -> None:
    """A kernel without NUMA gives one node with no id and all CPUs, so no memory is bound."""
    found = topology(unpack("no-node-folder", tmp_path), range(8))
    assert found.nodes == (Node(None, (0, 1, 2, 3, 4, 5, 6, 7)),)
    assert not found.numa
    bound, threads = bindings(found, None, 4, None)
    assert (prefix(bound[0]), threads) == (("numactl", "--physcpubind=0-3"), 4)


def test_without_sysfs_the_process_cpus_are_one_node(tmp_path: Path) -> None:
    """Where there is no sysfs at all, every CPU of the process is a core of its own."""
    found = topology(tmp_path / "nowhere", {3, 1, 2})
    assert found == Topology((Node(None, (1, 2, 3)),), (1, 2, 3))


def test_an_empty_node_folder_counts_as_none(tmp_path: Path) -> None:
    """A node folder that a container has masked is the same as none."""
    (tmp_path / "sys/devices/system/node").mkdir(parents=True)
    assert topology(tmp_path / "sys", {0, 1}).nodes == (Node(None, (0, 1)),)


def test_without_sibling_lists_every_cpu_is_a_core(tmp_path: Path) -> None:
    """Where siblings are not told, the CPUs come in ascending order."""
    sysfs = unpack("two-sockets-smt-adjacent", tmp_path)
    for path in sysfs.rglob("thread_siblings_list"):
        path.unlink()
    assert cpus_of(topology(sysfs, range(32)))[0] == tuple(range(16))


@pytest.mark.parametrize("content", ["", "\n", "soup\n"])
def test_a_sibling_list_without_sense_counts_as_missing(content: str, tmp_path: Path) -> None:
    """An empty or broken sibling list makes a CPU its own core and stops nothing."""
    sysfs = unpack("two-sockets-smt-adjacent", tmp_path)
    for path in sysfs.rglob("thread_siblings_list"):
        path.write_text(content)
    assert cpus_of(topology(sysfs, range(4)))[0] == (0, 1, 2, 3)


def test_the_newer_name_of_the_sibling_list_is_known(tmp_path: Path) -> None:
    """A kernel that has core_cpus_list alone is read in the same way."""
    sysfs = unpack("two-sockets-smt-adjacent", tmp_path)
    for path in sysfs.rglob("thread_siblings_list"):
        path.rename(path.with_name("core_cpus_list"))
    assert cpus_of(topology(sysfs, range(4)))[0] == (0, 2, 1, 3)


def test_the_process_cpus_are_asked_of_the_kernel() -> None:
    """The CPUs of this process are those of its affinity where there is such a thing."""
    expected = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
    assert own_cpus() == frozenset(expected)


@pytest.mark.skipif(sys.platform != "linux", reason="the affinity of a process is Linux' own")
def test_a_narrowed_affinity_is_respected() -> None:
    """A process that was started on one CPU finds that CPU alone."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert topology().cpus == (min(before),)
    finally:
        os.sched_setaffinity(0, before)


def test_this_machine_has_cpus() -> None:
    """The machine that runs the tests has nodes, and its CPUs are the process's own."""
    found = topology()
    assert found.nodes
    assert found.cpus
    assert set(found.cpus) <= own_cpus()

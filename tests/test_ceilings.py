"""Ceilings: which one a child meets, when they hold for a run, and how they are kept and shown."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from fusion import ceilings
from fusion.ceilings import KERNELS, Ceiling, Measured

FAST = Ceiling(
    numa_node=0,
    cpus="0-3",
    threads=4,
    array_bytes=80,
    gbps={"copy": 10.0, "scale": 11.5, "add": 12.25, "triad": 9.0},
    tflops={"float32": 2.5},
    unsupported={"float16": "no BLAS"},
    median_gbps=dict.fromkeys(KERNELS, 8.5),
    median_tflops={"float32": 2.25},
    doubts=("others took 20%",),
)
SLOW = replace(FAST, numa_node=1, cpus="4-7", gbps=dict.fromkeys(KERNELS, 8.0))
FEW = replace(SLOW, numa_node=2, cpus="8", threads=1, tflops={"float64": 0.125})
MEASURED = Measured("2026-05-06T07:08:09+02:00", "h", "cpu", "6.1", "3.12", "numpy 2", (FAST, SLOW))


def test_memory_meets_the_best_kernel():
    """The ceiling of memory is the best of the four kernels, whatever the dtype."""
    assert FAST.rate("memory", "float32") == FAST.rate("memory", None) == 12.25


def test_compute_meets_the_product_of_its_dtype():
    """The ceiling of compute is the dtype's own product, and there is none for another dtype."""
    assert FAST.rate("compute", "float32") == 2.5
    assert FAST.rate("compute", "float16") is None
    assert FAST.rate("compute", None) is None


def test_without_kernels_memory_has_no_ceiling():
    """A ceiling without rates answers None instead of failing."""
    assert replace(FAST, gbps={}).rate("memory", None) is None


@pytest.mark.parametrize(
    ("node", "threads", "found"),
    [(0, 4, FAST), (1, 4, SLOW), (2, 4, None), (0, 1, None), (None, 1, None)],
)
def test_ceiling_is_found_by_node_and_threads(node, threads, found):
    """Only a ceiling of the very node and number of threads is found."""
    assert MEASURED.find(node, threads) == found


@pytest.mark.parametrize("order", [(FAST, SLOW), (SLOW, FAST)])
def test_child_without_a_node_meets_the_lowest(order):
    """A child that is not pinned meets the slowest node with its threads, in whatever order."""
    assert replace(MEASURED, ceilings=order).find(None, 4) == SLOW


def test_lowest_is_sought_among_as_many_threads():
    """A slower ceiling with other threads does not count for a child that is not pinned."""
    slower = replace(FEW, gbps=dict.fromkeys(KERNELS, 1.0))
    assert replace(MEASURED, ceilings=(FAST, slower)).find(None, 4) == FAST


def test_unpinned_ceiling_is_met_by_unpinned_children_alone():
    """A ceiling without a node is found without a node, and is not that of node 0."""
    unpinned = replace(FAST, numa_node=None)
    measured = replace(MEASURED, ceilings=(unpinned,))
    assert measured.find(None, 4) == unpinned
    assert measured.find(0, 4) is None


def test_ceilings_hold_for_the_same_cpu_and_threads():
    """There is no obstacle where CPU and threads are those of the measurement."""
    assert MEASURED.obstacle("cpu", 4, (0, 1)) is None


@pytest.mark.parametrize(
    ("cpu", "threads", "told"),
    [
        ("other", 4, "measured on cpu, this machine is other"),
        (None, 4, "measured on cpu, this machine is None"),
        ("cpu", 8, "measured with 4 threads, this run has 8"),
        ("other", 8, "measured on cpu, this machine is other"),
    ],
)
def test_obstacle_names_both_sides(cpu, threads, told):
    """An obstacle names what was measured and what is here, the CPU before the threads."""
    assert MEASURED.obstacle(cpu, threads, (0,)) == told


def test_run_of_other_nodes_meets_no_ceiling():
    """Ceilings of other nodes or without pinning are an obstacle, those of one of two are none."""
    unpinned = replace(MEASURED, ceilings=(replace(FAST, numa_node=None),))
    told = "measured without pinning, this run is on nodes 0, 3"
    assert unpinned.obstacle("cpu", 4, (0, 3)) == told
    assert MEASURED.obstacle("cpu", 4, (3,)) == "measured on nodes 0, 1, this run is on node 3"
    assert MEASURED.obstacle("cpu", 4, (3, 1)) is None
    assert MEASURED.obstacle("cpu", 4, (None,)) is None


def test_warnings_name_host_gaps_and_doubts():
    """What is doubtful of the ceilings that a run meets is told, and of no others."""
    doubted = replace(
        MEASURED, ceilings=(replace(FAST, doubts=("a crowd",)), replace(SLOW, doubts=()))
    )
    assert doubted.warnings("h", 4, (1,)) == []
    assert doubted.warnings("g", 4, (0, 2)) == [
        "measured on host h, this is g",
        "none was measured on node 2",
        "doubt on node 0: a crowd",
    ]
    assert (
        MEASURED.warnings("h", 4, (None,))[0] == "measured on node 1, this run is without pinning"
    )


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ({}, (None,)),
        ({"pinned": False, "bindings": [{"node": 1}]}, (None,)),
        ({"pinned": True, "bindings": [{"node": 1}, {"node": 0}, {"node": 1}]}, (1, 0)),
    ],
)
def test_nodes_of_a_run_are_in_its_manifest(manifest, found):
    """Children that are not pinned have none."""
    assert ceilings.nodes(manifest) == found


def test_one_binding_with_the_threads_is_enough():
    """A run whose threads some binding was measured with meets no obstacle."""
    assert replace(MEASURED, ceilings=(FAST, FEW)).obstacle("cpu", 1, (2,)) is None


@pytest.mark.parametrize("each", [(FAST, SLOW), (replace(FAST, numa_node=None),)])
def test_calibration_survives_json(each):
    """What is kept as JSON is read back equal, with nodes and without."""
    measured = replace(MEASURED, ceilings=each)
    assert ceilings.from_json(json.loads(json.dumps(asdict(measured)))) == measured


def test_calibration_without_medians_is_read():
    """Plans of before the medians are read all the same."""
    saved = asdict(replace(MEASURED, ceilings=(FAST,)))
    for name in ("median_gbps", "median_tflops", "doubts"):
        del saved["ceilings"][0][name]
    (found,) = ceilings.from_json(saved).ceilings
    assert (found.gbps, found.median_gbps, found.doubts) == (FAST.gbps, {}, ())


def test_no_calibration_is_read_as_none():
    """None, which a plan keeps where nothing was measured, stays None."""
    assert ceilings.from_json(None) is None


def test_table_has_a_column_per_kernel_and_dtype():
    """Each binding is a line, each kernel and each measured dtype a column with its unit."""
    headers, lines = ceilings.table(replace(MEASURED, ceilings=(FAST, FEW)))
    assert list(headers) == [
        "node",
        "CPUs",
        "threads",
        *(f"{kernel} GB/s" for kernel in KERNELS),
        "float32 TFLOPS",
        "float64 TFLOPS",
    ]
    assert lines == [
        ["0", "0-3", "4", "10", "11.5", "12.25", "9", "2.5", "-"],
        ["2", "8", "1", "8", "8", "8", "8", "-", "0.125"],
    ]


def test_table_marks_what_is_not_pinned():
    """A binding without a node has a dash in its place."""
    _, lines = ceilings.table(replace(MEASURED, ceilings=(replace(FAST, numa_node=None),)))
    assert lines[0][:3] == ["-", "0-3", "4"]

"""Rows have places on the roofline, and ceilings their ridge points."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from fusion.ceilings import KERNELS, Ceiling, Measured
from fusion.page import points, reproduce
from fusion.page.points import MEMORY_BAND, Roof
from fusion.results import Results
from fusion.targets import Pipeline, Targets

COMPUTE, MEMORY = "fused_compute_tflops.csv", "fused_non_compute_bandwidth.csv"


def results(*rows, manifest=None):
    keyed = {
        (table, cells["operator"], "float32", str(index), 0): cells
        for index, (table, cells) in enumerate(rows)
    }
    return Results(keyed, {}, manifest or {})


def memory(operator="m", size="1000", rate="15.36", pct="50"):
    return (
        MEMORY,
        {"operator": operator, "logical_bytes": size, "achieved_gbps": rate, "attainment_pct": pct},
    )


def test_compute_row_stands_at_its_intensity():
    """x is FLOP/byte, y is TFLOPS."""
    row = {"operator": "c", "intensity_flop_per_byte": "64", "achieved_tflops": "1.5"}
    (point,) = points.points(results((COMPUTE, row)))
    assert (point.x, point.y) == (64.0, 1.5)


def test_memory_row_is_as_far_below_the_slope_as_its_bandwidth():
    """At any place in the band, y over the slope's height is achieved over target."""
    slope = Roof("target", "SVE", 100.0, 30.72)
    found = points.points(results(memory(size="10"), memory(size="1000"), memory(size="9999")))
    assert [point.y / slope.height(point.x) for point in found] == pytest.approx([0.5] * 3)
    assert found[0].x == pytest.approx(MEMORY_BAND[0])
    assert found[0].x < found[1].x < found[2].x == pytest.approx(MEMORY_BAND[1])


@pytest.mark.parametrize("rate", ["", "nan", "0", "x"])
def test_row_without_a_rate_has_no_place(rate):
    """An unknown is not drawn anywhere."""
    (point,) = points.points(results(memory(rate=rate)))
    assert (point.x, point.y) == (None, None)


def test_ridge_is_where_the_ceilings_meet():
    """Below it bandwidth limits, above it compute."""
    roof = Roof("target", "SME float32", 2.5, 25.0)
    assert roof.ridge == 100
    assert roof.height(roof.ridge) == pytest.approx(2.5)
    assert roof.height(10) == pytest.approx(0.25)
    assert roof.height(1000) == 2.5


def test_roofs_are_those_of_the_manifest():
    """Targets, peaks and measured ceilings each have theirs; overrides replace targets alone."""
    pipeline = Pipeline("SME", {}, {"float32": 2.0}, 30.0, {"float32": 10.0}, 150.0)
    ceiling = Ceiling(0, "0", 2, 8, dict.fromkeys(KERNELS, 40.0), {"float32": 0.1})
    measured = Measured("w", "h", "c", "k", "p", "l", (ceiling,))
    made = Targets("f", "s", {"SME": pipeline}, {}, 3.0, None, measured)
    manifest = {"targets": asdict(made), "omp_threads": 2}
    found = points.roofs(results(manifest=manifest))
    assert [(roof.kind, roof.tflops, roof.gbps) for roof in found] == [
        ("target", 3.0, 30.0),
        ("peak", 10.0, 150.0),
        ("measured", 0.1, 40.0),
    ]
    assert points.roofs(results()) == []
    other = points.roofs(results(manifest={**manifest, "omp_threads": 4}))
    assert [roof.kind for roof in other] == ["target", "peak"]


def test_attainments_are_sorted_with_their_spread():
    """The worst operator comes first; median, worst and best are over its shapes."""
    rows = [memory("a", pct=pct) for pct in ("10", "90", "50")] + [memory("b", pct="20")]
    first, second = points.attainments(results(*rows))
    assert (first.operator, first.middle) == ("b", 20)
    assert (second.middle, second.worst, second.best, second.shapes) == (50, 10, 90, 3)


def test_command_repeats_the_conditions_of_its_row():
    """Options come from the row, places and overrides from the manifest, quoted for a shell."""
    cells = {
        "operator": "x",
        "pipeline": "SVE",
        "warmup": "5",
        "numa_node": "1",
        "dtype": "float32",
    }
    manifest = {
        "suite_root": "/a b",
        "python": "/p",
        "targets": {"path": "/t.yaml"},
        "settings": {
            "target_gbps": {"value": 30.72, "source": "targets file"},
            "shape_file": {"value": "/s.yaml", "source": "command line"},
        },
        "repeat": 5,
    }
    assert reproduce.command(cells, manifest) == (
        "inv run --ops x --pipeline SVE --warmup 5 --numa-nodes 1 --dtypes float32 "
        "--flaggems '/a b' --python /p --shape-file /s.yaml --targets /t.yaml --repeat 5"
    )
    assert reproduce.command({"operator": "x", "dtype": "float8_e4m3fn"}, {}) == "inv run --ops x"

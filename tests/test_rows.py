"""The roofline arithmetic of a row, its unknowns, and its notes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import rows
from fusion.outcome import Outcome, Tried
from fusion.records import Case

COUNTS = st.integers(1, 10**18)
LATENCIES = st.floats(1e-6, 1e7)


@pytest.fixture
def planned(bench):
    made = bench.plan("good", "product")
    return replace(made, machine={**made.machine, "last_level_cache_bytes": 0}, pinned=True)


def made(planned, operator="good", ran="float32", **facts):
    job = next(job for job in planned.jobs if job.operator == operator)
    given = {
        "number": 0,
        "op_name": operator,
        "operator": operator,
        "dtype": "float32",
        "shape": [[4, 4]],
        "state": "measured",
        "latency_ms": 2.0,
        "baseline_latency_ms": 3.0,
        "speedup": 9.9,
        "metric": job.metric,
        "logical": 6_144_000,
    }
    tried = Tried(0, ran, 0, 1.0, "PASSED", "", 1, 0)
    outcome = Outcome(1, operator, "PASSED", "", 0, (tried,), "then", "now")
    return rows.make(Case(**{**given, **facts}), job, planned, outcome)


def test_memory_row(planned):
    """Bytes over seconds are GB/s, compared with the pipeline's bandwidth."""
    row = made(planned)
    assert row.achieved == pytest.approx(3.072)
    assert row.baseline_rate == pytest.approx(2.048)
    assert (row.target, row.speedup) == (30.72, 1.5)
    assert row.expected_latency_ms == pytest.approx(0.2)
    assert row.attainment_pct == pytest.approx(10)
    assert row.latency_ratio == pytest.approx(10)
    assert row.note == ""


def test_compute_row(planned):
    """FLOP over seconds are TFLOPS, compared with the target of pipeline and dtype."""
    row = made(planned, "product", logical=10**10)
    assert row.achieved == pytest.approx(5.0)
    assert row.target == pytest.approx(2.52631579)
    assert row.attainment_pct == pytest.approx(100 * 5.0 / 2.52631579)
    assert row.note == "above the target"


@given(st.sampled_from(["compute", "memory"]), COUNTS, LATENCIES, st.floats(1e-6, 1e6))
def test_expected_latency_and_rate_are_two_views_of_one_line(category, logical, latency, target):
    """At the expected latency the rate is the target, whatever the count."""
    expected = rows.expected_latency_ms(category, logical, target)
    assert rows.rate(category, logical, expected) == pytest.approx(target)
    achieved = rows.rate(category, logical, latency)
    assert achieved / target == pytest.approx(expected / latency)


@pytest.mark.parametrize("latency", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_no_latency_is_no_rate(latency):
    """What cannot be divided by gives an unknown, never a number."""
    assert rows.rate("memory", 8, latency) is None


def test_unknown_count_or_target_is_unknown():
    """Without a count there is no rate, without a target no expectation."""
    assert rows.rate("compute", None, 1.0) is None
    assert rows.expected_latency_ms("compute", None, 1.0) is None
    assert rows.expected_latency_ms("compute", 8, None) is None


def test_work_of_nothing_has_a_rate_of_zero(planned):
    """An operator that need not touch anything attains nothing, and nothing is divided by 0."""
    row = made(planned, logical=0)
    assert (row.achieved, row.attainment_pct, row.latency_ratio) == (0.0, 0.0, None)


def test_target_is_that_of_the_cases_own_dtype(planned):
    """A case in another dtype than the plan's is compared with its own target, or with none."""
    row = made(planned, "product", dtype="bfloat16")
    assert row.target == pytest.approx(5.05263158)
    row = made(planned, "product", dtype="int8")
    assert (row.target, row.attainment_pct) == (None, None)
    assert row.achieved is not None
    assert "no target for SME int8" in row.note


def test_missing_baseline_has_empty_cells_and_a_note(planned):
    """A benchmark without a usable baseline costs the speedup alone."""
    row = made(planned, baseline_latency_ms=float("nan"))
    assert (row.baseline_latency_ms, row.speedup, row.baseline_rate) == (None, None, None)
    assert row.attainment_pct is not None
    assert row.note == "no baseline latency"


def test_count_of_the_other_metric_is_no_count(planned):
    """FLOP recorded for a memory operator are not taken for bytes."""
    assert made(planned, metric="logical_flops").logical is None


def test_unpinned_rows_say_so_and_have_no_node(planned):
    """A row of an unpinned run names the reason and no NUMA node."""
    row = made(replace(planned, pinned=False, pinning="numactl is not installed"))
    assert row.note == "unpinned: numactl is not installed"
    assert row.numa_node is None
    assert row.cpus


def test_pinned_rows_name_node_and_cpus(planned):
    """A row of a pinned run tells where it was measured."""
    binding = replace(planned.bindings[0], node=3, cpus=(4, 5, 6, 9))
    row = made(replace(planned, bindings=(binding,)))
    assert (row.numa_node, row.cpus) == (3, "4-6,9")


def test_embedded_and_fallback_are_noted(planned):
    """A row tells where its benchmark came from and that its dtype is a fallback."""
    row = made(replace(planned, embedded=True), ran=None, dtype="float16")
    assert row.note == "embedded suite; dtype fallback: float32 failed, ran float16"


def test_problem_of_the_count_is_noted(planned):
    """Why a measurement has no count stands beside it."""
    row = made(planned, metric=None, logical=None, formula_error="no z")
    assert "formula: no z" in row.note
    assert row.latency_ms == 2.0


def with_peak(planned, gbps):
    pipelines = {
        name: replace(pipeline, peak_gbps=gbps)
        for name, pipeline in planned.targets.pipelines.items()
    }
    return replace(planned, targets=replace(planned.targets, pipelines=pipelines))


def test_rate_above_the_peak_is_suspect(planned):
    """Above what the hardware can do at all, a row is suspect; below it, it is not."""
    assert made(with_peak(planned, 3.0)).is_suspect
    assert not made(with_peak(planned, 3.1)).is_suspect
    assert not made(with_peak(planned, None)).is_suspect


def test_bytes_that_fit_the_cache_are_marked_instead(planned):
    """A rate of the cache is not held against the memory's peak."""
    cached = replace(with_peak(planned, 3.0), machine={"last_level_cache_bytes": 6_144_000})
    row = made(cached)
    assert row.note.startswith("cache-resident")
    assert not row.is_suspect
    assert "cache" not in made(cached, logical=6_144_001).note
    assert "cache" not in made(cached, "product").note


def test_cells_are_the_columns_of_the_category(planned):
    """A row has exactly the cells of its table, in order, in the units their names say."""
    memory, compute = made(planned).cells(), made(planned, "product").cells()
    assert tuple(memory) == rows.MEMORY_COLUMNS
    assert tuple(compute) == rows.COMPUTE_COLUMNS
    assert memory["logical_bytes"] == compute["logical_flop"] == 6_144_000
    assert memory["target_gbps"] == 30.72
    assert compute["achieved_tflops"] == pytest.approx(6_144_000 / 2e-3 / 1e12)
    assert memory["shape"] == "[[4,4]]"


def test_shape_is_compact_json_with_its_letters(planned):
    """The shape is the record's own, whatever it holds."""
    assert made(planned, shape={"größe": [1, None]}).shape == '{"größe":[1,null]}'

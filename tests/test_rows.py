"""The roofline arithmetic of a row, its unknowns, and its notes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import rows
from fusion.ceilings import KERNELS, Ceiling, Measured
from fusion.outcome import Outcome, Tried
from fusion.records import Case
from fusion.rows import Sample

COUNTS = st.integers(1, 10**18)
LATENCIES = st.floats(1e-6, 1e7)


@pytest.fixture
def planned(bench):
    made = bench.plan("good", "product")
    return replace(made, machine={**made.machine, "last_level_cache_bytes": 0}, pinned=True)


def sample(planned, operator="good", ran="float32", **facts):
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
    return Sample(Case(**{**given, **facts}), outcome)


def made(planned, operator="good", ran="float32", **facts):
    job = next(job for job in planned.jobs if job.operator == operator)
    return rows.make([sample(planned, operator, ran, **facts)], job, planned)


def repeated(planned, *latencies, **facts):
    job = next(job for job in planned.jobs if job.operator == "good")
    samples = [sample(planned, latency_ms=latency, **facts) for latency in latencies]
    return rows.make(samples, job, planned)


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


def test_repeats_give_median_deviation_and_count(planned):
    """A row of several repeats has their median, from which its rates come, and keeps them all."""
    row = repeated(planned, 2.0, 1.9, 2.1, 2.0, 2.05)
    assert (row.latency_ms, row.count) == (2.0, 5)
    assert row.latency_mad_ms == pytest.approx(0.05)
    assert row.achieved == pytest.approx(3.072)
    assert row.cells()["latencies_ms"] == "[2.0,1.9,2.1,2.0,2.05]"
    assert not row.is_unstable


def test_case_that_a_repeat_lacks_says_so(planned):
    """A benchmark that measured fewer cases in one repeat still passed, so the row tells."""
    thrice = replace(planned, repeat=3)
    assert "measured in 2 of 3 repeats" in repeated(thrice, 2.0, 2.1).note.split("; ")
    assert "repeats" not in repeated(thrice, 2.0, 2.1, 2.05).note


def test_single_measurement_has_no_spread(planned):
    """Nothing is known of the spread of one measurement."""
    row = made(planned)
    assert (row.count, row.latency_mad_ms, row.spread_pct) == (1, None, None)


@pytest.mark.parametrize("latencies", [(2.0, 2.0, 2.0, 2.0, 3.0), (2.0, 2.3, 1.7, 2.25, 1.75)])
def test_spread_of_ten_percent_makes_a_row_unstable(planned, latencies):
    """One outlier is enough, and so is a wide scatter."""
    row = repeated(planned, *latencies)
    assert row.spread_pct >= 10
    assert row.is_unstable
    assert "spread of" in row.note


def test_spread_of_exactly_ten_percent_counts_as_such(planned):
    """Floating point makes 9.999999999999995 % of it, which is 10 % all the same."""
    row = repeated(planned, 1.7937, 1.993, 2.1923)
    assert row.spread_pct == pytest.approx(10)
    assert row.is_unstable
    assert not repeated(planned, 1.7938, 1.993, 2.1922).is_unstable


def test_latency_under_what_the_clock_resolves_is_unstable(planned):
    """A latency must last a hundred steps of the clock."""
    coarse = replace(planned, machine={"clock_step_seconds": 21e-6})
    fine = replace(planned, machine={"clock_step_seconds": 19e-6})
    assert "clock" in made(coarse).note
    assert made(coarse).is_unstable
    assert not made(fine).is_unstable


@pytest.mark.parametrize(
    ("busy", "own", "is_unstable"), [(5.0, 4.9, False), (5.0, 1.0, True), (5.0, 4.2, True)]
)
def test_load_of_others_makes_a_row_unstable(planned, busy, own, is_unstable):
    """CPU time on the operator's CPUs that was not its own is told from its own."""
    before = {"when": "2026-01-01T00:00:00", "cpus": 2, "busy_seconds": 10.0, "steal_seconds": 0.0}
    after = {**before, "when": "2026-01-01T00:00:04", "busy_seconds": 10 + busy, "own_seconds": own}
    given = sample(planned)
    stated = replace(given, outcome=replace(given.outcome, before=before, after=after))
    row = rows.make([stated], planned.jobs[0], planned)
    assert row.is_unstable == is_unstable
    assert ("went to others" in row.note) == is_unstable


@pytest.mark.parametrize(
    ("seconds", "is_unstable"), [(0.0, False), (0.7, False), (0.8, True), (None, False)]
)
def test_child_that_a_quota_stopped_is_unstable(planned, seconds, is_unstable):
    """A container's CPU quota stops children in the middle of a measurement."""
    before = {"when": "2026-01-01T00:00:00", "cpus": 2, "throttled_seconds": 1.0}
    after = {**before, "when": "2026-01-01T00:00:04"}
    after["throttled_seconds"] = None if seconds is None else 1.0 + seconds
    given = sample(planned)
    stated = replace(given, outcome=replace(given.outcome, before=before, after=after))
    row = rows.make([stated], planned.jobs[0], planned)
    assert row.is_unstable == is_unstable
    assert ("a CPU quota stopped it" in row.note) == is_unstable


def test_work_that_differs_between_repeats_counts_as_its_median(planned):
    """Benchmarks may draw their inputs; the row says so."""
    job = planned.jobs[0]
    samples = [sample(planned, logical=logical) for logical in (10, 30, 20)]
    row = rows.make(samples, job, planned)
    assert row.logical == 20
    assert "differs between repeats" in row.note


def test_compute_row_has_its_intensity(planned):
    """Intensity is FLOP over the bytes of the call's tensors."""
    row = made(planned, "product", tensor_bytes=6_144)
    assert row.intensity_flop_per_byte == 1000
    assert made(planned, "product").intensity_flop_per_byte is None


def test_measured_ceiling_stands_beside_the_target(planned):
    """The two percentages refer to two columns."""
    rates = dict.fromkeys(KERNELS, 5.0) | {"copy": 6.144}
    ceiling = Ceiling(None, "0", planned.omp_threads, 8, rates, {})
    measured = Measured("now", "here", "cpu", "k", "3", "numpy", (ceiling,))
    placed = replace(planned, targets=replace(planned.targets, measured=measured), pinned=False)
    row = made(placed)
    assert (row.ceiling, row.ceiling_pct) == (6.144, pytest.approx(50))
    assert row.attainment_pct == pytest.approx(10)
    assert made(planned).ceiling is None

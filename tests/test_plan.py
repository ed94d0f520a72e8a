"""A plan is decided purely: which jobs, in which order, where, and what is left out."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion import plan
from fusion.files import FileError
from fusion.numa import Binding
from fusion.plan import Job, PlanError

SECONDS = st.lists(st.integers(1, 50), min_size=1, max_size=6)


def job(operator, **facts):
    given = {
        "operator": operator,
        "category": "memory",
        "metric": "logical_bytes",
        "source": "s",
        "pipeline": "SVE",
        "dtype": "float32",
        "explicit_dtype": False,
        "target": 1.0,
        "marker": None,
        "files": (),
        "tests": (),
        "binding": 0,
    }
    return Job(**{**given, **facts})


def jobs(count):
    return [job(f"op{index}") for index in range(count)]


def loads(dealt, bindings, seconds):
    return [sum(seconds[j.operator] for j in dealt if j.binding == b) for b in range(bindings)]


def test_jobs_of_unknown_length_take_turns_in_order():
    """With nothing known the order is that of the formulas, dealt round."""
    dealt = plan.distributed(jobs(5), 2, {})
    assert [(j.operator, j.binding) for j in dealt] == [
        ("op0", 0),
        ("op1", 1),
        ("op2", 0),
        ("op3", 1),
        ("op4", 0),
    ]


def test_longest_jobs_come_first_on_the_least_loaded_binding():
    """A long job begins the run, and the short ones fill up the other bindings."""
    seconds = {"op0": 1.0, "op1": 2.0, "op2": 9.0, "op3": 3.0}
    dealt = plan.distributed(jobs(4), 2, seconds)
    assert [(j.operator, j.binding) for j in dealt] == [
        ("op2", 0),
        ("op3", 1),
        ("op1", 1),
        ("op0", 1),
    ]


def test_unknown_job_counts_as_the_longest():
    """What never ran is not left for the end."""
    dealt = plan.distributed(jobs(3), 1, {"op0": 1.0, "op2": 5.0})
    assert [j.operator for j in dealt] == ["op1", "op2", "op0"]


@given(SECONDS, st.integers(1, 4))
def test_every_job_is_dealt_once_and_no_order_is_random(durations, bindings):
    """Dealing loses and repeats no job, keeps to the bindings, and is the same each time."""
    seconds = {f"op{index}": float(value) for index, value in enumerate(durations)}
    dealt = plan.distributed(jobs(len(durations)), bindings, seconds)
    assert sorted(j.operator for j in dealt) == sorted(seconds)
    assert all(0 <= j.binding < bindings for j in dealt)
    assert [seconds[j.operator] for j in dealt] == sorted(seconds.values(), reverse=True)
    assert dealt == plan.distributed(jobs(len(durations)), bindings, seconds)


@settings(max_examples=50)
@given(SECONDS, st.integers(1, 3))
def test_last_binding_is_never_left_alone_for_long(durations, bindings):
    """The busiest binding has at most 4/3 of what the best possible dealing would give it."""
    seconds = {f"op{index}": float(value) for index, value in enumerate(durations)}
    dealt = plan.distributed(jobs(len(durations)), bindings, seconds)
    best = min(
        max(sum(d for d, b in zip(durations, chosen, strict=True) if b == k) for k in range(3))
        for chosen in itertools.product(range(bindings), repeat=len(durations))
    )
    assert max(loads(dealt, bindings, seconds)) <= best * 4 / 3


@pytest.mark.parametrize(
    ("dtype", "explicit", "dtypes"),
    [
        ("float32", False, ("float32",)),
        ("float32", True, ("float32", "bfloat16", None)),
        ("bfloat16", True, ("bfloat16", None)),
    ],
)
def test_dtypes_to_try(dtype, explicit, dtypes):
    """Only a dtype that was asked for has fallbacks, each tried once."""
    assert job("x", dtype=dtype, explicit_dtype=explicit).dtypes == dtypes


def test_all_operators_are_planned_or_left_out_with_a_reason(bench):
    """Every operator of the catalogue has a job, or a line that says why not."""
    planned = bench.plan()
    left_out = {item.operator: (item.status, item.reason) for item in planned.left_out}
    assert set(left_out) == {"absent", "turned_off"}
    assert left_out["turned_off"] == (
        "DISABLED",
        "its count depends on data that the benchmark hides",
    )
    assert left_out["absent"][0] == "MISSING"
    assert "has a marker or a file of the name absent" in left_out["absent"][1]
    assert len(planned.jobs) == 16
    assert planned.publishes


def test_named_operators_do_not_publish_and_come_once(bench):
    """A run of chosen operators keeps its result to itself; an alias is no second operator."""
    planned = bench.plan("product", "good", "good_too")
    assert [j.operator for j in planned.jobs] == ["product", "good"]
    assert not planned.publishes


def test_all_refused_operators_are_told_at_once(bench):
    """One refusal names every operator that cannot run as asked."""
    with pytest.raises(PlanError) as refusal:
        bench.plan("absent", "good", "turned_off")
    assert "--ops absent: expected" in str(refusal.value)
    assert "--ops turned_off: expected" in str(refusal.value)


def test_mode_that_the_suite_lacks_is_refused(bench):
    """A mode is checked against what the suite itself declares."""
    assert bench.plan("good", mode="wrapper").value("mode") == "wrapper"
    with pytest.raises(PlanError, match=r"--mode cudagraph: expected a mode of .*kernel"):
        bench.plan("good", mode="cudagraph")


def test_pipeline_target_and_dtype_of_a_job(bench):
    """Compute runs on SME, memory on SVE, each with its own target."""
    found = {j.operator: j for j in bench.plan("good", "product").jobs}
    assert (found["good"].pipeline, found["good"].target) == ("SVE", 30.72)
    assert found["product"].pipeline == "SME"
    assert found["product"].target == pytest.approx(2.52631579)
    assert {j.dtype for j in found.values()} == {"float32"}


def test_overrides_apply_uniformly(bench):
    """A target of the command line replaces that of every pipeline and dtype."""
    planned = bench.plan("good", "product", target_tflops="7", target_gbps="8", dtypes="int16")
    assert {j.category: j.target for j in planned.jobs} == {"memory": 8.0, "compute": 7.0}
    assert planned.settings["target_gbps"] == {"value": 8, "source": "command line"}


def test_memory_target_of_the_targets_file_is_an_effective_setting(bench):
    """Where no override is given, the manifest still tells the bandwidth and its source."""
    assert bench.plan("good").settings["target_gbps"] == {"value": 30.72, "source": "targets file"}


def test_shape_file_is_kept_by_its_digest(bench):
    """Two runs with different shapes can be told apart, whatever the file is called."""
    path = bench.root / "shapes.yaml"
    path.write_text("a: 1\n")
    first = bench.plan("good", shape_file=str(path))
    path.write_text("a: 2\n")
    second = bench.plan("good", shape_file=str(path))
    assert first.shapes_sha256 != second.shapes_sha256
    assert bench.plan("good").shapes_sha256 is None
    command = first.first_command(first.jobs[0], {})
    assert f"--shape_file {path}" in command.environment["PYTEST_ADDOPTS"]


def pinned(planned, *bindings):
    return replace(planned, pinned=True, bindings=bindings)


def test_child_of_a_pinned_run_starts_under_numactl(bench):
    """The child's own node and CPUs stand in front of its command."""
    planned = pinned(bench.plan("good"), Binding(1, (4, 5, 6, 7)))
    command = planned.first_command(planned.jobs[0], {})
    assert command.argv[:3] == ("numactl", "--physcpubind=4-7", "--membind=1")
    assert command.argv[3:] == (planned.python, "-m", "pytest")


def test_child_of_an_unpinned_run_starts_as_it_is(bench):
    """Nothing stands in front of a child that cannot be pinned."""
    planned = replace(bench.plan("good"), pinned=False)
    assert planned.first_command(planned.jobs[0], {}).argv == (planned.python, "-m", "pytest")


def test_unpinned_plan_says_why(bench, monkeypatch):
    """Where numactl cannot be found the plan is unpinned, best effort, and has the reason."""
    monkeypatch.setenv("PATH", str(bench.root))
    planned = bench.plan("good")
    assert not planned.pinned
    assert re.match(r"numactl is not installed|no NUMA node can be used", planned.pinning)
    assert [binding.node for binding in planned.bindings] == [None]


def test_suite_sources_reach_the_child_unless_embedded(bench):
    """A checkout's own packages are importable in its children; the embedded suite has none."""
    planned = bench.plan("good")
    path = planned.first_command(planned.jobs[0], {}).environment["PYTHONPATH"].split(":")
    assert path[-2:] == [str(bench.suite), str(bench.suite / "src")]
    embedded = replace(planned, embedded=True)
    path = embedded.first_command(planned.jobs[0], {}).environment["PYTHONPATH"]
    assert str(bench.suite) not in path


def test_plan_survives_its_file(bench):
    """A plan read back from JSON is the same, and makes the same commands."""
    planned = bench.plan()
    again = plan.from_json(json.loads(json.dumps(plan.to_json(planned))))
    assert plan.to_json(again) == plan.to_json(planned)
    for one, other in zip(again.jobs, planned.jobs, strict=True):
        assert one == other
        assert again.first_command(one, {}) == planned.first_command(other, {})


def test_plan_of_a_newer_format_is_refused(bench):
    """A plan that a newer version saved is not guessed at."""
    data = plan.to_json(bench.plan("good"))
    with pytest.raises(FileError, match=f"plan of run {data['run_id']}.*newer version"):
        plan.from_json({**data, "format": plan.PLAN_FORMAT + 1})


def test_run_ids_sort_by_time_and_differ():
    """Ids of one moment differ, and fit in a file name."""
    names = {plan.new_run_id() for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(r"\d{8}-\d{6}-\d{3}[0-9a-f]{4}", name) for name in names)


def test_dtype_of_a_formula_is_the_default_where_the_suite_has_it(bench):
    """A formula may ask for another dtype than float32, and gets it unless the suite lacks it."""
    path = bench.suite / "benchmark" / "fusion_metrics_formulas.yaml"
    path.write_text(
        path.read_text().replace("category: memory", "category: memory\n    dtype: int8")
    )
    assert bench.plan("good").jobs[0].dtype == "int8"
    assert bench.plan("good", dtypes="float16").jobs[0].dtype == "float16"
    constants = bench.suite / "benchmark" / "consts.py"
    constants.write_text(constants.read_text() + 'DTYPES = ("float32",)\n')
    assert bench.plan("good").jobs[0].dtype == "float32"

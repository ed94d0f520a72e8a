"""Do the roofline arithmetic: a case, measured once or more, and its target become a row.

Units are declared once, here: latencies in ms, rates in TFLOPS (10^12 FLOP/s) and GB/s
(10^9 byte/s), attainment in percent, arithmetic intensity in FLOP/byte. None is an unknown and
becomes an empty cell. New columns are added at the end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from fusion import cpulist, stability
from fusion.outcome import Outcome
from fusion.plan import Job, Plan
from fusion.records import Case, is_latency
from fusion.stats import spread

_SHARED_HEAD = (
    "operator",
    "shape",
    "dtype",
    "pipeline",
    "latency_ms",
    "baseline_latency_ms",
    "speedup",
)
_SHARED_TAIL = (
    "source",
    "omp_threads",
    "numa_node",
    "cpus",
    "warmup",
    "iter",
    "mode",
    "level",
    "run_id",
    "note",
    "count",
    "latency_mad_ms",
    "spread_pct",
    "latencies_ms",
)
COMPUTE_COLUMNS = (
    *_SHARED_HEAD,
    "logical_flop",
    "achieved_tflops",
    "target_tflops",
    "expected_latency_ms",
    "attainment_pct",
    "latency_ratio",
    *_SHARED_TAIL,
    "tensor_bytes",
    "intensity_flop_per_byte",
    "ceiling_tflops",
    "ceiling_pct",
)
MEMORY_COLUMNS = (
    *_SHARED_HEAD,
    "logical_bytes",
    "achieved_gbps",
    "target_gbps",
    "baseline_gbps",
    "expected_latency_ms",
    "attainment_pct",
    "latency_ratio",
    *_SHARED_TAIL,
    "ceiling_gbps",
    "ceiling_pct",
)
# What the note of a row begins with whose rate the hardware cannot reach.
SUSPECT = "suspect"
# What it begins with when its latency cannot be relied on.
UNSTABLE = "unstable"
# Units of work in a unit of rate, and of time in a second.
_PER_TERA, _PER_GIGA, _MS = 1e12, 1e9, 1e-3


@dataclass(frozen=True)
class Row:
    """Compare one case with the target of its pipeline and dtype.

    ``latency_ms`` is the median of the ``count`` repeats in ``latencies_ms``, ``latency_mad_ms``
    their median absolute deviation; both are of independent children. ``logical`` counts FLOP
    (compute) or bytes (memory); ``achieved``, ``target``, ``ceiling`` and ``baseline_rate`` are
    TFLOPS or GB/s. ``attainment_pct`` refers to the target, ``ceiling_pct`` to the measured
    ceiling. ``tensor_bytes`` are those of the call's tensors, without the results.
    """

    category: str
    operator: str
    shape: str
    dtype: str | None
    pipeline: str
    latency_ms: float
    baseline_latency_ms: float | None
    speedup: float | None
    logical: int | None
    achieved: float | None
    target: float | None
    baseline_rate: float | None
    expected_latency_ms: float | None
    attainment_pct: float | None
    latency_ratio: float | None
    source: str
    omp_threads: int
    numa_node: int | None
    cpus: str
    warmup: int
    iter: int
    mode: str
    level: str
    run_id: str
    note: str
    count: int = 1
    latency_mad_ms: float | None = None
    spread_pct: float | None = None
    latencies_ms: tuple[float, ...] = ()
    tensor_bytes: int | None = None
    intensity_flop_per_byte: float | None = None
    ceiling: float | None = None
    ceiling_pct: float | None = None

    @property
    def is_suspect(self) -> bool:
        """Tell whether the rate is above what the hardware can do at all."""
        return bool(marked(self.note, SUSPECT))

    @property
    def is_unstable(self) -> bool:
        """Tell whether the latency cannot be relied on; the note says why."""
        return bool(marked(self.note, UNSTABLE))

    def cells(self) -> dict[str, object]:
        """Name the values as the columns of the category's table do."""
        compute = self.category == "compute"
        named = {
            "logical_flop" if compute else "logical_bytes": self.logical,
            "achieved_tflops" if compute else "achieved_gbps": self.achieved,
            "target_tflops" if compute else "target_gbps": self.target,
            "ceiling_tflops" if compute else "ceiling_gbps": self.ceiling,
            "baseline_gbps": self.baseline_rate,
            "latencies_ms": json.dumps(self.latencies_ms, separators=(",", ":")),
        }
        values = {**vars(self), **named}
        return {column: values[column] for column in columns(self.category)}


def columns(category: str) -> tuple[str, ...]:
    """Return the columns of a category's table, in order."""
    return COMPUTE_COLUMNS if category == "compute" else MEMORY_COLUMNS


def marked(note: str, *marks: str) -> list[str]:
    """List the parts of a row's note that begin with one of the marks."""
    return [part for part in note.split("; ") if part.startswith(marks)]


def rate(category: str, logical: int | None, latency_ms: float | None) -> float | None:
    """Return TFLOPS or GB/s from a count of FLOP or bytes and a latency in ms."""
    if logical is None or latency_ms is None or not is_latency(latency_ms):
        return None
    unit = _PER_TERA if category == "compute" else _PER_GIGA
    return logical / (latency_ms * _MS) / unit


def expected_latency_ms(category: str, logical: int | None, target: float | None) -> float | None:
    """Return the latency in ms at which the target would be reached exactly."""
    if logical is None or not target:
        return None
    unit = _PER_TERA if category == "compute" else _PER_GIGA
    return logical / (target * unit) / _MS


@dataclass(frozen=True)
class Sample:
    """Hold a case as one repeat measured it, with what that repeat's outcome says."""

    case: Case
    outcome: Outcome


def make(samples: Sequence[Sample], job: Job, plan: Plan) -> Row:
    """Turn a case, measured by one or more repeats, into a row with medians.

    The target is that of the case's own dtype. ``samples`` are all measured, and one at least.
    """
    case = _typical(samples)
    latencies = tuple(sample.case.latency_ms or 0.0 for sample in samples)
    latency = spread.median(latencies)
    target = plan.targets.target(job.category, job.pipeline, case.dtype)
    logical = case.logical if case.metric == job.metric else None
    achieved = rate(job.category, logical, latency)
    expected = expected_latency_ms(job.category, logical, target)
    attainment = None if expected is None else 100 * expected / latency
    baseline = _baseline(samples)
    binding = plan.bindings[job.binding]
    node = binding.node if plan.pinned else None
    ceiling = plan.targets.ceiling(job.category, case.dtype, node, plan.omp_threads)
    compute = job.category == "compute"
    return Row(
        category=job.category,
        operator=case.operator or job.operator,
        shape=shape_text(case),
        dtype=case.dtype,
        pipeline=job.pipeline,
        latency_ms=latency,
        baseline_latency_ms=baseline,
        speedup=None if baseline is None else baseline / latency,
        logical=logical,
        achieved=achieved,
        target=target,
        baseline_rate=rate(job.category, logical, baseline),
        expected_latency_ms=expected,
        attainment_pct=attainment,
        latency_ratio=latency / expected if expected else None,
        source=job.source,
        omp_threads=plan.omp_threads,
        numa_node=node,
        cpus=cpulist.render(binding.cpus),
        warmup=plan.value("warmup"),
        iter=plan.value("iter"),
        mode=plan.value("mode"),
        level=plan.value("level"),
        run_id=plan.run_id,
        note="; ".join(_notes(samples, case, job, plan, target, attainment, achieved)),
        count=len(latencies),
        latency_mad_ms=spread.absolute_deviation(latencies),
        spread_pct=spread.percent(latencies),
        latencies_ms=latencies,
        tensor_bytes=case.tensor_bytes if compute else None,
        intensity_flop_per_byte=_intensity(logical, case) if compute else None,
        ceiling=ceiling,
        ceiling_pct=100 * achieved / ceiling if achieved is not None and ceiling else None,
    )


def shape_text(case: Case) -> str:
    """Write a case's shape as compact JSON."""
    return json.dumps(case.shape, separators=(",", ":"), ensure_ascii=False)


def is_cache_resident(case: Case, job: Job, plan: Plan) -> bool:
    """Tell whether a memory operator's logical bytes fit the machine's last-level cache."""
    cache = plan.machine.get("last_level_cache_bytes") or 0
    return job.category == "memory" and 0 < (case.logical or 0) <= cache


def _typical(samples: Sequence[Sample]) -> Case:
    """Return the case whose logical work is the median: benchmarks may draw their inputs."""
    ordered = sorted(samples, key=lambda sample: sample.case.logical or 0)
    return ordered[(len(ordered) - 1) // 2].case


def _baseline(samples: Sequence[Sample]) -> float | None:
    found = [sample.case.baseline_latency_ms for sample in samples]
    known = [latency for latency in found if latency is not None and is_latency(latency)]
    return spread.median(known) if known else None


def _intensity(logical: int | None, case: Case) -> float | None:
    return logical / case.tensor_bytes if logical is not None and case.tensor_bytes else None


def _exceeds_peak(case: Case, job: Job, plan: Plan, achieved: float | None) -> bool:
    peak = plan.targets.peak(job.category, job.pipeline, case.dtype)
    return peak is not None and achieved is not None and achieved > peak


def _notes(
    samples: Sequence[Sample],
    case: Case,
    job: Job,
    plan: Plan,
    target: float | None,
    attainment: float | None,
    achieved: float | None,
) -> list[str]:
    notes = []
    if plan.embedded:
        notes.append("embedded suite")
    if not plan.pinned:
        notes.append(f"unpinned: {plan.pinning}")
    if any(sample.outcome.counting.dtype != job.dtype for sample in samples):
        notes.append(f"dtype fallback: {job.dtype} failed, ran {case.dtype}")
    notes += dict.fromkeys(sample.case.problem for sample in samples if sample.case.problem)
    if target is None:
        notes.append(f"no target for {job.pipeline} {case.dtype}")
    if attainment is not None and attainment > 100:
        notes.append("above the target")
    if is_cache_resident(case, job, plan):
        notes.append("cache-resident: its bytes fit the last-level cache, this is not DRAM's rate")
    elif _exceeds_peak(case, job, plan, achieved):
        notes.append(f"{SUSPECT}: above what the hardware can do")
    if _baseline(samples) is None:
        notes.append("no baseline latency")
    if len(samples) < plan.repeat:
        notes.append(f"measured in {len(samples)} of {plan.repeat} repeats")
    if len({sample.case.logical for sample in samples}) > 1:
        notes.append("its work differs between repeats; the median counts")
    return notes + [f"{UNSTABLE}: {reason}" for reason in _doubts(samples, plan)]


def _doubts(samples: Sequence[Sample], plan: Plan) -> list[str]:
    """List why the latency of a case cannot be relied on."""
    latencies = [sample.case.latency_ms or 0.0 for sample in samples]
    step = plan.machine.get("clock_step_seconds")
    doubts = [
        spread.too_wide(latencies),
        spread.too_short(spread.median(latencies), step),
        stability.disturbed([sample.outcome for sample in samples]),
        stability.throttled([sample.outcome for sample in samples]),
    ]
    return [doubt for doubt in doubts if doubt is not None]

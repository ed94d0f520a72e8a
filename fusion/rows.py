"""Do the roofline arithmetic: a case and its target become a row of a table.

Units are declared once, here: latencies in ms, rates in TFLOPS (10^12 FLOP/s) and GB/s
(10^9 byte/s), attainment in percent. None is an unknown and becomes an empty cell.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from fusion import cpulist
from fusion.outcome import Outcome
from fusion.plan import Job, Plan
from fusion.records import Case, is_latency

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
)
# What the note of a row begins with whose rate the hardware cannot reach.
SUSPECT = "suspect"
# Units of work in a unit of rate, and of time in a second.
_PER_TERA, _PER_GIGA, _MS = 1e12, 1e9, 1e-3


@dataclass(frozen=True)
class Row:
    """Compare one case with the target of its pipeline and dtype.

    ``logical`` counts FLOP (compute) or bytes (memory); ``achieved``, ``target`` and
    ``baseline_rate`` are TFLOPS or GB/s.
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

    @property
    def is_suspect(self) -> bool:
        """Tell whether the rate is above what the hardware can do at all."""
        return any(note.startswith(SUSPECT) for note in self.note.split("; "))

    def cells(self) -> dict[str, object]:
        """Name the values as the columns of the category's table do."""
        compute = self.category == "compute"
        named = {
            "logical_flop" if compute else "logical_bytes": self.logical,
            "achieved_tflops" if compute else "achieved_gbps": self.achieved,
            "target_tflops" if compute else "target_gbps": self.target,
            "baseline_gbps": self.baseline_rate,
        }
        values = {**vars(self), **named}
        return {column: values[column] for column in columns(self.category)}


def columns(category: str) -> tuple[str, ...]:
    """Return the columns of a category's table, in order."""
    return COMPUTE_COLUMNS if category == "compute" else MEMORY_COLUMNS


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


def make(case: Case, job: Job, plan: Plan, outcome: Outcome) -> Row:
    """Turn a measured case into a row. The target is that of the case's own dtype."""
    assert case.latency_ms is not None
    target = plan.targets.target(job.category, job.pipeline, case.dtype)
    logical = case.logical if case.metric == job.metric else None
    achieved = rate(job.category, logical, case.latency_ms)
    expected = expected_latency_ms(job.category, logical, target)
    attainment = None if expected is None else 100 * expected / case.latency_ms
    baseline = case.baseline_latency_ms if is_latency(case.baseline_latency_ms) else None
    binding = plan.bindings[job.binding]
    return Row(
        category=job.category,
        operator=case.operator or job.operator,
        shape=json.dumps(case.shape, separators=(",", ":"), ensure_ascii=False),
        dtype=case.dtype,
        pipeline=job.pipeline,
        latency_ms=case.latency_ms,
        baseline_latency_ms=baseline,
        speedup=None if baseline is None else baseline / case.latency_ms,
        logical=logical,
        achieved=achieved,
        target=target,
        baseline_rate=rate(job.category, logical, baseline),
        expected_latency_ms=expected,
        attainment_pct=attainment,
        latency_ratio=case.latency_ms / expected if expected else None,
        source=job.source,
        omp_threads=plan.omp_threads,
        numa_node=binding.node if plan.pinned else None,
        cpus=cpulist.render(binding.cpus),
        warmup=plan.value("warmup"),
        iter=plan.value("iter"),
        mode=plan.value("mode"),
        level=plan.value("level"),
        run_id=plan.run_id,
        note="; ".join(_notes(case, job, plan, outcome, target, attainment)),
    )


def is_cache_resident(case: Case, job: Job, plan: Plan) -> bool:
    """Tell whether a memory operator's logical bytes fit the machine's last-level cache."""
    cache = plan.machine.get("last_level_cache_bytes") or 0
    return job.category == "memory" and 0 < (case.logical or 0) <= cache


def _exceeds_peak(case: Case, job: Job, plan: Plan) -> bool:
    peak = plan.targets.peak(job.category, job.pipeline, case.dtype)
    achieved = rate(job.category, case.logical, case.latency_ms)
    return peak is not None and achieved is not None and achieved > peak


def _notes(
    case: Case,
    job: Job,
    plan: Plan,
    outcome: Outcome,
    target: float | None,
    attainment: float | None,
) -> list[str]:
    notes = []
    if plan.embedded:
        notes.append("embedded suite")
    if not plan.pinned:
        notes.append(f"unpinned: {plan.pinning}")
    counting = next(tried for tried in outcome.attempts if tried.index == outcome.counts)
    if counting.dtype != job.dtype:
        notes.append(f"dtype fallback: {job.dtype} failed, ran {case.dtype}")
    if case.problem is not None:
        notes.append(case.problem)
    if target is None:
        notes.append(f"no target for {job.pipeline} {case.dtype}")
    if attainment is not None and attainment > 100:
        notes.append("above the target")
    if is_cache_resident(case, job, plan):
        notes.append("cache-resident: its bytes fit the last-level cache, this is not DRAM's rate")
    elif _exceeds_peak(case, job, plan):
        notes.append(f"{SUSPECT}: above what the hardware can do")
    if not is_latency(case.baseline_latency_ms):
        notes.append("no baseline latency")
    return notes

"""Build a run's report from its folder alone: rows, coverage, manifest, and their files."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fusion import files, outcome, plan, records, repeats, rows
from fusion.journal import COMPUTE_TABLE, COVERAGE_TABLE, MANIFEST, MEMORY_TABLE, Attempt, Journal
from fusion.outcome import Outcome
from fusion.plan import Job, Plan
from fusion.records import Case, Records
from fusion.rows import Row, Sample

# History of run.json's format, newest last:
# 1  first.
# 2  repeat, the machine's state around each operator, the pinning in force, measured ceilings.
MANIFEST_FORMAT = 2


@dataclass(frozen=True)
class Coverage:
    """Say for one operator of the catalogue how far it got, and why not further.

    ``measured`` counts its rows, ``repeats`` how many independent children gave them.
    """

    operator: str
    category: str
    status: str
    cases: int = 0
    measured: int = 0
    errors: int = 0
    suspect: int = 0
    dtype: str | None = None
    pipeline: str | None = None
    attempts: int = 0
    seconds: float | None = None
    reason: str = ""
    suite: str = ""
    run_id: str = ""
    output: str | None = None
    repeats: int = 0
    unstable: int = 0


COVERAGE_COLUMNS = tuple(Coverage.__dataclass_fields__)


@dataclass(frozen=True)
class Report:
    """Hold what a run found out.

    ``errors`` are the problems of single cases; ``pinning`` is what was in force in each operator's
    child.
    """

    journal: Journal
    plan: Plan
    rows: tuple[Row, ...]
    coverage: tuple[Coverage, ...]
    errors: tuple[Mapping[str, Any], ...]
    outcomes: tuple[Outcome, ...]
    versions: Mapping[str, str]
    pinning: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Return 0 when every operator that could run passed, else 1."""
        return int(any(line.status not in outcome.BENIGN for line in self.coverage))

    def of(self, category: str) -> tuple[Row, ...]:
        """List the rows of a category, in the order of the run."""
        return tuple(row for row in self.rows if row.category == category)


def load(kept: Journal) -> Report:
    """Read a run's folder, finished or not; operators without an outcome are NOT_RUN."""
    planned = plan.from_json(files.read_json(kept.plan))
    found = [_operator_or_why_not(job, planned, kept) for job in planned.jobs]
    left_out = [_left_out(item, planned) for item in planned.left_out]
    return Report(
        journal=kept,
        plan=planned,
        rows=tuple(row for part in found for row in part.rows),
        coverage=(*(part.coverage for part in found), *left_out),
        errors=tuple(error for part in found for error in part.errors),
        outcomes=tuple(ended for part in found for ended in part.outcomes),
        versions=next((part.versions for part in found if part.versions), {}),
        pinning={part.coverage.operator: part.pinning for part in found if part.pinning},
    )


@dataclass(frozen=True)
class _Part:
    coverage: Coverage
    rows: tuple[Row, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    versions: Mapping[str, str] | None = None
    pinning: Mapping[str, str] | None = None


@dataclass(frozen=True)
class _Repeat:
    outcome: Outcome
    records: Records
    attempt: Attempt


def _operator_or_why_not(job: Job, planned: Plan, kept: Journal) -> _Part:
    try:
        return _operator(job, planned, kept)
    except Exception as error:  # one operator's damaged files must not cost another its rows
        reason = f"its files cannot be read: {type(error).__name__}: {error}"
        return _Part(_coverage(job, planned, "NO_DATA", reason))


def _operator(job: Job, planned: Plan, kept: Journal) -> _Part:
    if not kept.is_done(job.operator):
        return _Part(_coverage(job, planned, "NOT_RUN", "the run ended before it"))
    done = [_repeat(job, kept, index) for index in repeats.done(kept, job.operator, planned.repeat)]
    made = tuple(rows.make(samples, job, planned) for samples in _pooled(done))
    missing = repeats.owed(kept, job.operator, planned.repeat)
    return _Part(
        coverage=_measured_coverage(job, planned, done, made, missing),
        rows=made,
        errors=tuple(
            _error(job, case, planned, repeat.outcome.repeat)
            for repeat in done
            for case in repeat.records.cases
            if case.problem is not None
        ),
        outcomes=tuple(repeat.outcome for repeat in done),
        versions=done[0].records.versions,
        pinning=done[0].records.pinning,
    )


def _repeat(job: Job, kept: Journal, index: int) -> _Repeat:
    ended = outcome.from_json(files.read_json(kept.outcome(job.operator, index)))
    attempt = kept.attempt(job.operator, ended.counts, index)
    return _Repeat(ended, records.read(attempt), attempt)


def _pooled(done: Iterable[_Repeat]) -> Iterable[list[Sample]]:
    """Bring together what the repeats measured of one case, in the order of the first that has it.

    A case is an operator, dtype and shape; of several that agree in these, the same ordinal.
    """
    pooled: dict[tuple[Any, ...], list[Sample]] = {}
    for repeat in done:
        seen: Counter[tuple[str, ...]] = Counter()
        for case in repeat.records.measured:
            name = (case.operator or "", str(case.dtype), rows.shape_text(case))
            pooled.setdefault((name, seen[name]), []).append(Sample(case, repeat.outcome))
            seen[name] += 1
    return pooled.values()


def _measured_coverage(
    job: Job, planned: Plan, done: list[_Repeat], made: tuple[Row, ...], missing: list[int]
) -> Coverage:
    dtypes = dict.fromkeys(
        case.dtype for repeat in done for case in repeat.records.cases if case.dtype
    )
    tried = [each for repeat in done for each in repeat.outcome.attempts]
    status, reason, telling = _combined(done, planned.repeat, missing)
    return _coverage(
        job,
        planned,
        status,
        reason,
        cases=max(len(repeat.records.cases) for repeat in done),
        measured=len(made),
        errors=max(repeat.outcome.counting.errors for repeat in done),
        suspect=sum(row.is_suspect for row in made),
        dtype=" ".join(dtypes) or done[0].outcome.counting.dtype,
        attempts=len(tried),
        seconds=round(sum(each.seconds for each in tried), 3),
        output=str(telling.attempt.output),
        repeats=len(done),
        unstable=sum(row.is_unstable for row in made),
    )


def _combined(done: list[_Repeat], repeat: int, missing: list[int]) -> tuple[str, str, _Repeat]:
    """Return an operator's status and reason over its repeats, and the repeat that tells it."""
    first = done[0]
    if first.outcome.status not in outcome.RESULTS:
        return first.outcome.status, first.outcome.reason, first
    bad = [each for each in done if each.outcome.status != "PASSED"]
    told = [
        each.outcome.reason
        if repeat == 1
        else f"repeat {each.outcome.repeat + 1}: {each.outcome.status}: {each.outcome.reason}"
        for each in bad
    ]
    if missing:
        told.append(f"{len(done)} of {repeat} repeats ran")
    return ("PARTIAL" if told else "PASSED"), "; ".join(told), (bad or done)[0]


def _coverage(job: Job, planned: Plan, status: str, reason: str, **facts: Any) -> Coverage:
    return Coverage(
        operator=job.operator,
        category=job.category,
        status=status,
        pipeline=job.pipeline,
        reason=reason,
        suite=planned.suite,
        run_id=planned.run_id,
        **{"dtype": job.dtype, **facts},
    )


def _left_out(item: plan.LeftOut, planned: Plan) -> Coverage:
    return Coverage(
        operator=item.operator,
        category=item.category,
        status=item.status,
        reason=item.reason,
        suite=planned.suite,
        run_id=planned.run_id,
    )


def _error(job: Job, case: Case, planned: Plan, repeat: int) -> dict[str, Any]:
    return {
        "run_id": planned.run_id,
        "operator": job.operator,
        "repeat": repeat,
        "case": case.number,
        "dtype": case.dtype,
        "shape": case.shape,
        "message": case.problem,
    }


def manifest(report: Report) -> dict[str, Any]:
    """Give the run as one JSON object: plan, outcomes, errors, versions."""
    described = plan.to_json(report.plan)
    resumed = report.journal.resumed
    return {
        **described,
        "format": MANIFEST_FORMAT,
        "conditions": conditions(report.plan),
        "resumed": files.read_json(resumed) if resumed.exists() else [],
        "runs": {
            report.plan.run_id: {
                "created": report.plan.created,
                "suite": report.plan.suite,
                "statuses": {line.operator: line.status for line in report.coverage},
            }
        },
        "versions": dict(report.versions),
        "pinning_in_force": dict(report.pinning),
        "operators": [outcome.to_json(ended) for ended in report.outcomes],
        "coverage": [asdict(line) for line in report.coverage],
        "errors": list(report.errors),
        "rows": {category: len(report.of(category)) for category in ("compute", "memory")},
        "row_sources": [
            {
                "operator": row.operator,
                "dtype": row.dtype,
                "shape": row.shape,
                "run_id": row.run_id,
            }
            for row in report.rows
        ],
    }


def conditions(planned: Plan) -> dict[str, Any]:
    """Return what must agree for two runs' rows to stand in one table."""
    chosen = {name: planned.value(name) for name in ("mode", "level", "warmup", "iter")}
    return {
        **chosen,
        "shapes": planned.shapes_sha256,
        "omp_threads": planned.omp_threads,
        "targets": planned.targets.sha256,
        "target_tflops": planned.targets.override_tflops,
        "target_gbps": planned.targets.override_gbps,
        "formulas": planned.formulas_sha256,
        "suite": planned.suite,
        "cpu_model": planned.machine.get("cpu_model"),
    }


def file_texts(report: Report) -> dict[str, str]:
    """Return the four report files as texts, by name."""
    return {
        COMPUTE_TABLE: table(rows.COMPUTE_COLUMNS, (row.cells() for row in report.of("compute"))),
        MEMORY_TABLE: table(rows.MEMORY_COLUMNS, (row.cells() for row in report.of("memory"))),
        COVERAGE_TABLE: table(COVERAGE_COLUMNS, map(asdict, report.coverage)),
        MANIFEST: files.json_text(manifest(report)),
    }


def table(columns: Iterable[str], lines: Iterable[Mapping[str, Any]]) -> str:
    """Write plain CSV: a header and rows, full precision, empty where unknown."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def save(report: Report, kept: Journal) -> None:
    """Write the four files into the run's folder."""
    for name, text in file_texts(report).items():
        files.write(kept.folder / name, text)

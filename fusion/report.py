"""Build a run's report from its folder alone: rows, coverage, manifest, and their files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fusion import journal, outcome, plan, records, rows
from fusion.journal import COMPUTE_TABLE, COVERAGE_TABLE, MANIFEST, MEMORY_TABLE, Journal
from fusion.outcome import Outcome
from fusion.plan import Job, Plan
from fusion.records import Case, Records
from fusion.rows import Row

# History of run.json's format, newest last:
# 1  first.
MANIFEST_FORMAT = 1


@dataclass(frozen=True)
class Coverage:
    """Say for one operator of the catalogue how far it got, and why not further."""

    operator: str
    category: str
    status: str
    cases: int
    measured: int
    errors: int
    suspect: int
    dtype: str | None
    pipeline: str | None
    attempts: int
    seconds: float | None
    reason: str
    suite: str
    run_id: str
    output: str | None


COVERAGE_COLUMNS = tuple(Coverage.__dataclass_fields__)


@dataclass(frozen=True)
class Report:
    """Hold what a run found out. ``errors`` are the problems of single cases."""

    journal: Journal
    plan: Plan
    rows: tuple[Row, ...]
    coverage: tuple[Coverage, ...]
    errors: tuple[Mapping[str, Any], ...]
    outcomes: tuple[Outcome, ...]
    versions: Mapping[str, str]

    @property
    def exit_code(self) -> int:
        """Return 0 when every operator that could run passed, else 1."""
        return int(any(line.status not in outcome.BENIGN for line in self.coverage))

    def of(self, category: str) -> tuple[Row, ...]:
        """List the rows of a category, in the order of the run."""
        return tuple(row for row in self.rows if row.category == category)


def load(kept: Journal) -> Report:
    """Read a run's folder, finished or not; operators without an outcome are NOT_RUN."""
    planned = plan.from_json(journal.read_json(kept.plan))
    found = [_operator_or_why_not(job, planned, kept) for job in planned.jobs]
    left_out = [_left_out(item, planned) for item in planned.left_out]
    return Report(
        journal=kept,
        plan=planned,
        rows=tuple(row for part in found for row in part.rows),
        coverage=(*(part.coverage for part in found), *left_out),
        errors=tuple(error for part in found for error in part.errors),
        outcomes=tuple(part.outcome for part in found if part.outcome is not None),
        versions=next((part.versions for part in found if part.versions), {}),
    )


@dataclass(frozen=True)
class _Part:
    coverage: Coverage
    rows: tuple[Row, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    outcome: Outcome | None = None
    versions: Mapping[str, str] | None = None


def _operator_or_why_not(job: Job, planned: Plan, kept: Journal) -> _Part:
    try:
        return _operator(job, planned, kept)
    except Exception as error:  # one operator's damaged files must not cost another its rows
        reason = f"its files cannot be read: {type(error).__name__}: {error}"
        return _Part(_coverage(job, planned, "NO_DATA", reason))


def _operator(job: Job, planned: Plan, kept: Journal) -> _Part:
    if not kept.is_done(job.operator):
        return _Part(_coverage(job, planned, "NOT_RUN", "the run ended before it"))
    ended = outcome.from_json(journal.read_json(kept.outcome(job.operator)))
    attempt = kept.attempt(job.operator, ended.counts)
    left = records.read(attempt)
    made = tuple(rows.make(case, job, planned, ended) for case in left.measured)
    suspect = sum(row.is_suspect for row in made)
    return _Part(
        coverage=_measured_coverage(job, planned, ended, left, suspect, str(attempt.output)),
        rows=made,
        errors=tuple(_error(job, case, planned) for case in left.cases if case.problem is not None),
        outcome=ended,
        versions=left.versions,
    )


def _measured_coverage(
    job: Job, planned: Plan, ended: Outcome, left: Records, suspect: int, output: str
) -> Coverage:
    counting = next(tried for tried in ended.attempts if tried.index == ended.counts)
    dtypes = dict.fromkeys(case.dtype for case in left.cases if case.dtype)
    return _coverage(
        job,
        planned,
        ended.status,
        ended.reason,
        cases=len(left.cases),
        measured=len(left.measured),
        errors=counting.errors,
        suspect=suspect,
        dtype=" ".join(dtypes) or counting.dtype,
        attempts=len(ended.attempts),
        seconds=round(sum(tried.seconds for tried in ended.attempts), 3),
        output=output,
    )


def _coverage(job: Job, planned: Plan, status: str, reason: str, **facts: Any) -> Coverage:
    defaults = {
        "cases": 0,
        "measured": 0,
        "errors": 0,
        "suspect": 0,
        "dtype": job.dtype,
        "attempts": 0,
        "seconds": None,
        "output": None,
    }
    return Coverage(
        operator=job.operator,
        category=job.category,
        status=status,
        pipeline=job.pipeline,
        reason=reason,
        suite=planned.suite,
        run_id=planned.run_id,
        **{**defaults, **facts},
    )


def _left_out(item: plan.LeftOut, planned: Plan) -> Coverage:
    return Coverage(
        operator=item.operator,
        category=item.category,
        status=item.status,
        cases=0,
        measured=0,
        errors=0,
        suspect=0,
        dtype=None,
        pipeline=None,
        attempts=0,
        seconds=None,
        reason=item.reason,
        suite=planned.suite,
        run_id=planned.run_id,
        output=None,
    )


def _error(job: Job, case: Case, planned: Plan) -> dict[str, Any]:
    return {
        "run_id": planned.run_id,
        "operator": job.operator,
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
        "resumed": journal.read_json(resumed) if resumed.exists() else [],
        "runs": {
            report.plan.run_id: {
                "created": report.plan.created,
                "suite": report.plan.suite,
                "statuses": {line.operator: line.status for line in report.coverage},
            }
        },
        "versions": dict(report.versions),
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


def files(report: Report) -> dict[str, str]:
    """Return the four report files as texts, by name."""
    return {
        COMPUTE_TABLE: table(rows.COMPUTE_COLUMNS, (row.cells() for row in report.of("compute"))),
        MEMORY_TABLE: table(rows.MEMORY_COLUMNS, (row.cells() for row in report.of("memory"))),
        COVERAGE_TABLE: table(COVERAGE_COLUMNS, map(asdict, report.coverage)),
        MANIFEST: journal.json_text(manifest(report)),
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
    for name, text in files(report).items():
        journal.write(kept.folder / name, text)

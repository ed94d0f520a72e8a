"""Decide what a run does: settings x formulas x suite x topology -> an ordered list of jobs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from fusion import command, files, journal, numa, settings
from fusion import targets as targets_file
from fusion.command import Command
from fusion.errors import Refusal
from fusion.formulas.catalogue import Catalogue, Formula
from fusion.journal import Journal
from fusion.settings import Settings
from fusion.suite import Benchmark, Suite
from fusion.targets import Targets
from fusion.workspace import Workspace

# History of plan.json's format, newest last:
# 1  first.
# 2  repeat: how many independent children measure each operator.
PLAN_FORMAT = 2
DEFAULT_DTYPE = "float32"
FALLBACK_DTYPE = "bfloat16"


class PlanError(Refusal):
    """Refuse a run that cannot be planned as asked."""


@dataclass(frozen=True)
class Job:
    """Describe one operator's measurement. ``binding`` is an index into the plan's bindings.

    ``target`` is in TFLOPS for a compute operator, in GB/s for a memory operator.
    """

    operator: str
    category: str
    metric: str
    source: str
    pipeline: str
    dtype: str
    explicit_dtype: bool
    target: float | None
    marker: str | None
    files: tuple[str, ...]
    tests: tuple[str, ...]
    binding: int

    @property
    def dtypes(self) -> tuple[str | None, ...]:
        """List the dtypes to try, in order; None leaves the choice to the benchmark."""
        if not self.explicit_dtype:
            return (self.dtype,)
        return tuple(dict.fromkeys((self.dtype, FALLBACK_DTYPE, None)))


@dataclass(frozen=True)
class LeftOut:
    """Say why an operator of the catalogue has no job."""

    operator: str
    category: str
    status: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Hold everything a run needs to know; it is saved before the first child starts."""

    format: int
    run_id: str
    created: str
    output_dir: str
    suite: str
    suite_root: str
    suite_revision: str
    embedded: bool
    why: str
    time_unit: str
    python: str
    formulas: str
    formulas_sha256: str
    targets: Targets
    settings: Mapping[str, Mapping[str, Any]]
    shapes_sha256: str | None
    publishes: bool
    machine: Mapping[str, Any]
    omp_threads: int
    pinned: bool
    pinning: str
    bindings: tuple[numa.Binding, ...]
    jobs: tuple[Job, ...]
    left_out: tuple[LeftOut, ...]
    repeat: int = 1

    @property
    def journal(self) -> Journal:
        """Return the run's folder."""
        return journal.of(Path(self.output_dir), self.run_id)

    def value(self, name: str) -> Any:
        """Return the effective value of a setting."""
        return self.settings[name]["value"]

    def first_command(self, job: Job, environ: Mapping[str, str]) -> Command:
        """Return the exact command that a job starts with."""
        attempt = self.journal.attempt(job.operator, 0)
        return self.command(job, job.dtypes[0], attempt.folder, self.journal, environ)

    def command(
        self,
        job: Job,
        dtype: str | None,
        folder: Path,
        kept: Journal,
        environ: Mapping[str, str],
    ) -> Command:
        """Return the exact command of an attempt that has ``folder`` as its working directory."""
        pipeline = self.targets.pipelines[job.pipeline].environment
        root = Path(self.suite_root)
        arguments = command.selection(root, job.files, job.marker, job.tests) + command.options(
            self.value("mode"),
            self.value("level"),
            self.value("warmup"),
            self.value("iter"),
            dtype,
            self.value("shape_file"),
        )
        return Command(
            argv=(*self._prefix(job), self.python, "-m", "pytest"),
            folder=str(folder),
            environment=command.environment(
                environ,
                pytest_arguments=arguments,
                omp_threads=self.omp_threads,
                pipeline=pipeline,
                caches=kept.caches,
                formulas=self.formulas,
                operator=job.operator,
                sources=() if self.embedded else (str(root), str(root / "src")),
            ),
            unset=command.other_pipelines(environ, pipeline),
        )

    def _prefix(self, job: Job) -> tuple[str, ...]:
        return numa.prefix(self.bindings[job.binding]) if self.pinned else ()


@dataclass(frozen=True)
class Request:
    """Hold what the command line asks for beyond the settings. No operators: all of them.

    ``repeat`` is how many independent children measure each operator.
    """

    operators: tuple[str, ...] = ()
    pipeline: str | None = None
    repeat: int = 1


def make(
    request: Request,
    chosen: Settings,
    workspace: Workspace,
    catalogue: Catalogue,
    targets: Targets,
    suite: Suite,
    placement: numa.Placement,
    machine: Mapping[str, Any],
    seconds: Mapping[str, float],
) -> Plan:
    """Plan a run; raise PlanError or TargetsError when it cannot be done as asked.

    ``seconds`` are the durations of operators in earlier runs, where known.
    """
    _check_mode(chosen, suite)
    _check_ceilings(targets, machine)
    targets = targets.overridden(chosen.target_tflops, chosen.target_gbps)
    formulas = _selected(request, catalogue)
    left_out = tuple(_left_out(formulas, suite))
    if request.operators and left_out:
        raise PlanError("\n".join(_refusal(item, suite) for item in left_out))
    runnable = _without(formulas, left_out)
    jobs = [_job(formula, request, chosen, targets, suite) for formula in runnable]
    return Plan(
        format=PLAN_FORMAT,
        run_id=new_run_id(),
        created=now(),
        output_dir=str(chosen.output_dir),
        suite=suite.name,
        suite_root=str(suite.root),
        suite_revision=suite.revision,
        embedded=suite.embedded,
        why=workspace.why,
        time_unit=suite.time_unit,
        python=workspace.python,
        formulas=str(catalogue.path),
        formulas_sha256=catalogue.sha256,
        targets=targets,
        settings=_effective(chosen, targets),
        shapes_sha256=_digest(chosen.shape_file),
        publishes=not request.operators,
        machine=dict(machine),
        omp_threads=placement.omp_threads,
        pinned=placement.pinned,
        pinning=placement.reason or "numactl",
        bindings=placement.bindings,
        jobs=tuple(distributed(jobs, len(placement.bindings), seconds)),
        left_out=left_out,
        repeat=request.repeat,
    )


def now() -> str:
    """Return the local time with its offset, to the millisecond: two runs may share a second."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def new_run_id() -> str:
    """Return a name that sorts by time and does not collide."""
    moment = datetime.now()
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03}{secrets.token_hex(2)}"


def distributed(jobs: Sequence[Job], bindings: int, seconds: Mapping[str, float]) -> list[Job]:
    """Deal jobs out, the longest first, each to the binding with the least to do.

    A job of unknown duration counts as the longest, so that it is not left for the end; with no
    duration known the jobs keep their order and the bindings take turns.
    """
    longest = max((seconds.get(job.operator, 0.0) for job in jobs), default=0.0) or 1.0
    lengths = {job.operator: seconds.get(job.operator, longest) for job in jobs}
    loads = [0.0] * bindings
    dealt = []
    for job in sorted(jobs, key=lambda job: -lengths[job.operator]):
        binding = loads.index(min(loads))
        loads[binding] += lengths[job.operator]
        dealt.append(replace(job, binding=binding))
    return dealt


def _check_mode(chosen: Settings, suite: Suite) -> None:
    if suite.modes and chosen.mode not in suite.modes:
        raise PlanError(
            f"--mode {chosen.mode}: expected a mode of {suite.name}: " + ", ".join(suite.modes)
        )


def _check_ceilings(targets: Targets, machine: Mapping[str, Any]) -> None:
    measured, here = targets.measured, machine.get("cpu_model")
    if measured is not None and measured.cpu_model != here:
        raise PlanError(
            f"{targets.path}: expected ceilings of this machine's CPU ({here}), found those of "
            f"{measured.cpu_model}; measure here with 'inv calibrate', or take 'measured' out"
        )


def _selected(request: Request, catalogue: Catalogue) -> tuple[Formula, ...]:
    names = request.operators or tuple(catalogue.formulas)
    chosen = {formula.operator: formula for formula in map(catalogue.resolve, names)}
    return tuple(chosen.values())


def _left_out(formulas: Iterable[Formula], suite: Suite) -> Iterable[LeftOut]:
    for formula in formulas:
        if not formula.enabled:
            yield LeftOut(
                formula.operator, formula.category, "DISABLED", formula.exclude_reason or ""
            )
        elif benchmark_of(formula, suite) is None:
            yield LeftOut(
                formula.operator,
                formula.category,
                "MISSING",
                f"no benchmark in {suite.name} has a marker or a file of the name "
                + " or ".join(formula.names),
            )


def benchmark_of(formula: Formula, suite: Suite) -> Benchmark | None:
    """Find the benchmark of a formula's operator."""
    return suite.find(formula.names, formula.tests)


def _refusal(item: LeftOut, suite: Suite) -> str:
    state = "is disabled" if item.status == "DISABLED" else "has no benchmark"
    return (
        f"--ops {item.operator}: expected an operator that {suite.name} can run, "
        f"but it {state}: {item.reason}; 'inv list' shows what can run"
    )


def _without(formulas: Iterable[Formula], left_out: Iterable[LeftOut]) -> list[Formula]:
    names = {item.operator for item in left_out}
    return [formula for formula in formulas if formula.operator not in names]


def _job(
    formula: Formula, request: Request, chosen: Settings, targets: Targets, suite: Suite
) -> Job:
    benchmark = benchmark_of(formula, suite)
    assert benchmark is not None
    pipeline = targets.pipeline(formula.category, request.pipeline)
    dtype = chosen.dtypes or default_dtype(formula, suite)
    return Job(
        operator=formula.operator,
        category=formula.category,
        metric=formula.metric,
        source=formula.source or benchmark.files[0],
        pipeline=pipeline,
        dtype=dtype,
        explicit_dtype=chosen.dtypes is not None,
        target=targets.require(formula.category, pipeline, dtype, formula.operator),
        marker=benchmark.marker,
        files=benchmark.files,
        tests=benchmark.tests,
        binding=0,
    )


def default_dtype(formula: Formula, suite: Suite) -> str:
    """Return the formula's own dtype where the suite has it, else float32."""
    if formula.dtype and formula.dtype in (suite.dtypes or (formula.dtype,)):
        return formula.dtype
    return DEFAULT_DTYPE


def _digest(path: Path | None) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else None


def _effective(chosen: Settings, targets: Targets) -> dict[str, dict[str, Any]]:
    described = settings.described(chosen)
    if chosen.target_gbps is None:
        declared = sorted({p.gbps for p in targets.pipelines.values() if p.gbps is not None})
        value = declared[0] if len(declared) == 1 else declared or None
        described["target_gbps"] = {"value": value, "source": "targets file"}
    return described


def to_json(plan: Plan) -> dict[str, Any]:
    """Give a plan as plain JSON values."""
    return asdict(plan)


def from_json(data: Mapping[str, Any]) -> Plan:
    """Read a plan back; raise FileError for a format that this version does not know."""
    files.check_format(data, PLAN_FORMAT, f"plan of run {data.get('run_id')}")
    return Plan(
        **{
            **data,
            "targets": targets_file.from_json(data["targets"]),
            "bindings": _many(data["bindings"], numa.Binding),
            "jobs": _many(data["jobs"], Job),
            "left_out": _many(data["left_out"], LeftOut),
        }
    )


def _many(items: Iterable[Mapping[str, Any]], make_one: Callable[..., Any]) -> tuple[Any, ...]:
    return tuple(
        make_one(**{k: tuple(v) if isinstance(v, list) else v for k, v in item.items()})
        for item in items
    )

"""Write for people: tables, a summary, a plan, the list of operators, as plain text."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tabulate import tabulate

from fusion import cpulist, outcome
from fusion.formulas.catalogue import Catalogue
from fusion.history import Entry
from fusion.journal import Journal
from fusion.plan import Job, Plan, benchmark_of, default_dtype
from fusion.report import Coverage, Report
from fusion.rows import Row
from fusion.runner import Event
from fusion.suite import Suite
from fusion.text import number, shortened

_UNITS = {"compute": "TFLOPS", "memory": "GB/s"}
_SHAPE_WIDTH, _REASON_WIDTH, _LINE_WIDTH = 44, 110, 140


def result(report: Report) -> str:
    """Write a run's rows worst attainment first, what did not pass, and one line of summary."""
    parts = [rows_table(report.rows), problems_table(report.coverage), summary(report)]
    return "\n\n".join(part for part in parts if part)


def rows_table(rows: Iterable[Row]) -> str:
    """Write rows worst attainment first; unknown attainments come last."""
    ordered = sorted(rows, key=lambda row: (row.attainment_pct is None, row.attainment_pct or 0.0))
    if not ordered:
        return ""
    columns = [*_COLUMNS, *(column for column, is_told in _EXTRA if any(map(is_told, ordered)))]
    return tabulate(
        [[cell(row) for _, cell, _ in columns] for row in ordered],
        headers=[head for head, _, _ in columns],
        colalign=[alignment for _, _, alignment in columns],
        disable_numparse=True,
    )


def problems_table(coverage: Iterable[Coverage]) -> str:
    """Write the operators that did not pass, with the reason and the output to open.

    What failed comes before what could not run; operators without a benchmark share a paragraph.
    """
    lines = [line for line in coverage if line.status != "PASSED"]
    told = sorted(
        (line for line in lines if line.status != "MISSING"),
        key=lambda line: line.status in outcome.BENIGN,
    )
    cells = [(line.operator, line.status, shortened(line.reason, _REASON_WIDTH)) for line in told]
    opened = [
        f"  {line.output}" for line in told if line.output and line.status not in outcome.BENIGN
    ]
    headers = ["operator", "status", "reason"]
    parts = [
        tabulate(cells, headers=headers, disable_numparse=True) if cells else "",
        "Outputs to open:\n" + "\n".join(opened) if opened else "",
        _missing([line for line in lines if line.status == "MISSING"]),
    ]
    return "\n".join(filter(None, parts))


def _missing(lines: Sequence[Coverage]) -> str:
    if not lines:
        return ""
    verb = "operator has" if len(lines) == 1 else "operators have"
    names = ", ".join(line.operator for line in lines)
    text = f"MISSING: {len(lines)} {verb} no benchmark in {lines[0].suite}: {names}"
    return textwrap.fill(text, _LINE_WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def summary(report: Report) -> str:
    """Say in one line how the run ended."""
    known = [row for row in report.rows if row.attainment_pct is not None]
    counts = Counter(line.status for line in report.coverage)
    states = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    suspect = sum(row.is_suspect for row in report.rows)
    states += f", {suspect} SUSPECT rows" if suspect else ""
    unstable = sum(row.is_unstable for row in report.rows)
    states += f", {unstable} unstable rows" if unstable else ""
    cases = f"{len(report.rows)} case{'s' if len(report.rows) != 1 else ''}"
    text = f"{report.plan.suite}: {states}; {cases}"
    if not known:
        return text
    worst = min(known, key=lambda row: row.attainment_pct or 0.0)
    return (
        f"{text}; geometric mean {geometric_mean(known):.3g} % of the target, "
        f"worst {worst.operator} {worst.attainment_pct:.3g} %"
    )


def geometric_mean(rows: Sequence[Row]) -> float:
    """Return the geometric mean of the attainments in percent."""
    logarithms = [math.log(row.attainment_pct) for row in rows if row.attainment_pct]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0


def first_line(planned: Plan) -> str:
    """Say which suite runs, and why when it is the embedded one."""
    if planned.embedded:
        return f"Suite: {planned.suite}; {planned.why}"
    return f"Suite: {planned.suite} at {planned.suite_root}"


def runs(entries: Iterable[Entry]) -> str:
    """List runs with their states."""
    lines = [
        (run.run_id, run.created, run.suite, run.passed, run.other, run.left, run.state)
        for run in entries
    ]
    headers = ["run", "when", "suite", "passed", "other", "left", "state"]
    return tabulate(lines, headers=headers) if lines else "No runs yet; 'inv run' starts one."


def heading(planned: Plan, kept: Journal) -> str:
    """Say what every run says at its start: suite, formulas, pinning, output."""
    pinning = "numactl" if planned.pinned else f"none ({planned.pinning})"
    return "\n".join(
        [
            first_line(planned),
            f"Formulas: {planned.formulas} (SHA-256 {planned.formulas_sha256[:16]})",
            f"Pinning: {pinning}; {planned.omp_threads} threads per child",
            *_ceilings(planned),
            f"Run: {kept.folder}",
        ]
    )


def _ceilings(planned: Plan) -> list[str]:
    """Say which ceilings were measured, why they are not this run's, and what to doubt."""
    measured = planned.targets.measured
    if measured is None:
        return []
    nodes = [binding.node for binding in planned.bindings] if planned.pinned else [None]
    line = f"Ceilings: measured {measured.when} with {measured.library}"
    obstacle = measured.obstacle(planned.machine.get("cpu_model"), planned.omp_threads, nodes)
    if obstacle:
        return [f"{line}; not shown: {obstacle}"]
    warnings = measured.warnings(planned.machine.get("host"), planned.omp_threads, nodes)
    return [line, *(f"  Beware: {warning}" for warning in warnings)]


def event_line(event: Event) -> str:
    """Tell one event of a run in a line."""
    dtype = event.dtype or "the benchmark's own dtypes"
    again = f", repeat {event.repeat + 1}" if event.repeat else ""
    if event.kind == "started":
        return f"{event.job.operator}: started with {dtype}{again}"
    if event.kind == "fallback":
        return (
            f"{event.job.operator}: {shortened(event.text, _REASON_WIDTH)}; falling back to {dtype}"
        )
    ended = event.outcome
    assert ended is not None
    seconds = sum(tried.seconds for tried in ended.attempts)
    reason = f": {shortened(ended.reason, _REASON_WIDTH)}" if ended.reason else ""
    return f"{event.job.operator}: {ended.status} in {seconds:.1f} s{again}{reason}"


def dry_run(planned: Plan, environ: Mapping[str, str]) -> str:
    """Write everything that a run of this plan would do."""
    return "\n\n".join(
        filter(
            None,
            [
                _places(planned),
                _settings(planned),
                _jobs(planned),
                _left_out(planned),
                _bindings(planned),
                "Commands, each ready to paste into a shell:",
                *(_commands(planned, job, environ) for job in planned.jobs),
                "This was a dry run: nothing was started and nothing was written.",
            ],
        )
    )


def operators(catalogue: Catalogue, suite: Suite) -> str:
    """List the catalogue: category, formula state, default dtype, benchmark."""
    lines = []
    for formula in catalogue.formulas.values():
        benchmark = benchmark_of(formula, suite)
        lines.append(
            (
                formula.operator,
                formula.category,
                "enabled" if formula.enabled else f"disabled: {formula.exclude_reason}",
                default_dtype(formula, suite),
                " ".join(benchmark.files) if benchmark else "not found",
            )
        )
    return tabulate(
        lines,
        headers=["operator", "category", "formula", "default dtype", "benchmark"],
        disable_numparse=True,
    )


def _marks(row: Row) -> str:
    marks = (("suspect", row.is_suspect), ("unstable", row.is_unstable))
    return " ".join(name for name, is_set in marks if is_set)


def _rate_cell(rate: float | None, row: Row) -> str:
    return number(rate, _UNITS[row.category])


# A column is its head, what it shows of a row, and its alignment.
_Column = tuple[str, Callable[[Row], str], str]
_COLUMNS: tuple[_Column, ...] = (
    ("operator", lambda row: row.operator, "left"),
    ("shape", lambda row: shortened(row.shape, _SHAPE_WIDTH), "left"),
    ("dtype", lambda row: row.dtype or "-", "left"),
    ("pipeline", lambda row: row.pipeline, "left"),
    ("latency ms", lambda row: number(row.latency_ms), "right"),
    ("speedup", lambda row: number(row.speedup), "right"),
    ("achieved", lambda row: _rate_cell(row.achieved, row), "right"),
    ("target", lambda row: _rate_cell(row.target, row), "right"),
    ("attained %", lambda row: number(row.attainment_pct), "right"),
)
# Columns that are shown when a row has something to tell there.
_EXTRA: tuple[tuple[_Column, Callable[[Row], bool]], ...] = (
    (
        ("of measured ceiling %", lambda row: number(row.ceiling_pct), "right"),
        lambda row: row.ceiling_pct is not None,
    ),
    (("MAD ms", lambda row: number(row.latency_mad_ms), "right"), lambda row: row.count > 1),
    (("repeats", lambda row: str(row.count), "right"), lambda row: row.count > 1),
    (("mark", _marks, "left"), lambda row: bool(_marks(row))),
)


def _places(planned: Plan) -> str:
    return "\n".join(
        [
            first_line(planned),
            f"Formulas: {planned.formulas}",
            f"  SHA-256 {planned.formulas_sha256}",
            f"Targets: {planned.targets.path}",
            f"  SHA-256 {planned.targets.sha256}",
            f"Child's Python: {planned.python}",
            *_ceilings(planned),
            _repeats(planned),
            f"Run: {planned.journal.folder}",
        ]
    )


def _repeats(planned: Plan) -> str:
    """Say how often every operator is measured; the commands shown are those of the first time."""
    if planned.repeat == 1:
        return "Repeats: 1 child per operator"
    folders = " to ".join(dict.fromkeys(["repeat-1", f"repeat-{planned.repeat - 1}"]))
    return (
        f"Repeats: {planned.repeat} independent children per operator, interleaved: the commands "
        f"below for every operator, then again, in {folders} of each operator's folder"
    )


def _settings(planned: Plan) -> str:
    units = {"timeout": "s", "target_gbps": "GB/s", "target_tflops": "TFLOPS"}
    units |= {"warmup": planned.time_unit, "iter": planned.time_unit}
    lines = [
        (name, _setting(entry["value"], units.get(name, "")), entry["source"])
        for name, entry in planned.settings.items()
    ]
    return tabulate(lines, headers=["setting", "value", "source"], disable_numparse=True)


def _setting(value: object, unit: str) -> str:
    if value is None:
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return f"{text} {unit}".rstrip()


def _jobs(planned: Plan) -> str:
    lines = [
        (
            job.operator,
            job.category,
            job.pipeline,
            " then ".join(dtype or "the benchmark's own" for dtype in job.dtypes),
            number(job.target, _UNITS[job.category]),
            job.marker or "-",
            " ".join(job.files),
        )
        for job in planned.jobs
    ]
    headers = ["operator", "category", "pipeline", "dtype", "target", "marker", "benchmark"]
    return tabulate(lines, headers=headers, disable_numparse=True) if lines else "No operator runs."


def _left_out(planned: Plan) -> str:
    lines = [(item.operator, item.status, item.reason) for item in planned.left_out]
    if not lines:
        return "Left out: nothing"
    return "Left out:\n" + tabulate(
        lines, headers=["operator", "status", "reason"], disable_numparse=True
    )


def _bindings(planned: Plan) -> str:
    pinning = "by numactl" if planned.pinned else f"not pinned: {planned.pinning}"
    lines = [
        f"  {index}: NUMA node {'-' if binding.node is None else binding.node}, "
        f"CPUs {cpulist.render(binding.cpus)}"
        for index, binding in enumerate(planned.bindings)
    ]
    return "\n".join([f"Bindings, {planned.omp_threads} threads each, {pinning}:", *lines])


def _commands(planned: Plan, job: Job, environ: Mapping[str, str]) -> str:
    exact = planned.first_command(job, environ).shell()
    return f"# {job.operator} on binding {job.binding}\n{exact}"

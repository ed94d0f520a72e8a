"""Go the whole way: from the options of the command line to a plan, from a plan to a report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusion import (
    __version__,
    files,
    history,
    journal,
    locks,
    lookup,
    machine,
    numa,
    outcome,
    plan,
    repeats,
    report,
    results,
    settings,
    suite,
    targets,
    workspace,
)
from fusion import publish as publishing
from fusion.errors import Refusal
from fusion.formulas.catalogue import Catalogue
from fusion.journal import Journal
from fusion.plan import Plan, Request
from fusion.report import Report
from fusion.results import Results
from fusion.runner import Event, Runner
from fusion.stopping import Stop
from fusion.suite import Suite
from fusion.workspace import Workspace

# What only some tasks need is imported by these: a dry run has no time to spare for the others.
if TYPE_CHECKING:
    from fusion.calibration import Effort
    from fusion.ceilings import Measured


class ResumeError(Refusal):
    """Refuse to go on with a run whose surroundings have changed."""


@dataclass(frozen=True)
class Options:
    """Hold the texts of the command line; None where an option was not given."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    pipeline: str | None = None
    flaggems: str | None = None
    python: str | None = None
    targets: str | None = None
    repeat: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """Hold what lies outside the program: environment, current folder, ``.env``."""

    environ: Mapping[str, str]
    folder: Path
    dotenv: Path


@dataclass(frozen=True)
class Watcher:
    """Say who is told what: events of the run, and that it waits for somebody else's."""

    event: Callable[[Event], None] = lambda event: None
    tick: Callable[[], None] = lambda: None
    tell: Callable[[str], None] = lambda text: None


def prepare(options: Options, around: Surroundings) -> Plan:
    """Check everything that can be checked and plan the run, touching nothing on disk."""
    chosen = _settings(options, around)
    files.check_writable(chosen.output_dir)
    places, catalogue, found = survey(options, around)
    placement = numa.place(numa.topology(), chosen.numa_nodes, chosen.omp_threads, chosen.jobs)
    return plan.make(
        Request(options.operators, options.pipeline, repeats_asked(options.repeat)),
        chosen,
        places,
        catalogue,
        targets.load(places.targets),
        found,
        placement,
        machine.describe(),
        history.seconds(chosen.output_dir),
    )


def repeats_asked(text: str | None) -> int:
    """Read how often each operator is measured; 1 where it is not given."""
    if text is None:
        return 1
    if re.fullmatch(r"[0-9]{1,4}", text) and int(text) >= 1:
        return int(text)
    raise Refusal(
        f"--repeat: expected a whole number of independent children per operator, from 1 to 9999, "
        f"found {text!r}; by 4, 'inv compare' tells the change of a single row, by 9 one of 1,000"
    )


def survey(options: Options, around: Surroundings) -> tuple[Workspace, Catalogue, Suite]:
    """Find the places, the formulas and the benchmarks that the options lead to."""
    places = workspace.locate(around.environ, options.flaggems, options.python, options.targets)
    found = suite.scan(places.suite, places.embedded, __version__)
    return places, Catalogue.load(places.formulas), found


def execute(
    planned: Plan, environ: Mapping[str, str], watcher: Watcher | None = None, wait: bool = True
) -> Report:
    """Carry out a plan; save its report in the run's folder, also when interrupted."""
    return _measured(planned, planned.journal, environ, watcher or Watcher(), wait, is_new=True)


def resume(
    kept: Journal,
    environ: Mapping[str, str],
    watcher: Watcher | None = None,
    failed: bool = False,
    force: bool = False,
    wait: bool = True,
) -> Report:
    """Run what a run has left, by the plan that it saved; ``failed``: also what did not pass.

    Raise ResumeError, naming each difference, when the formulas, the targets, the suite or the
    machine are not those of the plan; ``force`` goes on and keeps the differences.
    """
    planned = plan.from_json(files.read_json(kept.plan))
    before = report.load(kept)
    again = _not_passed(before) if failed else ()
    if not work_left(before, failed):
        return before
    differing = differences(planned)
    if differing and not force:
        raise ResumeError(
            f"run {planned.run_id}: expected everything as the run began, found changes:\n  "
            + "\n  ".join(differing)
            + "\nundo them, start a new run, or go on all the same with --force"
        )
    return _measured(
        planned, kept, environ, watcher or Watcher(), wait, again=again, differing=differing
    )


def left(found: Report) -> dict[str, int]:
    """Count the measurements that a run still owes, by operator."""
    planned = found.plan
    owed = {
        job.operator: len(repeats.owed(found.journal, job.operator, planned.repeat))
        for job in planned.jobs
    }
    return {operator: count for operator, count in owed.items() if count}


def work_left(found: Report, failed: bool) -> bool:
    """Tell whether resuming would run anything; ``failed``: what did not pass counts."""
    return bool(left(found) or (failed and _not_passed(found)))


def differences(planned: Plan) -> list[str]:
    """Name what is no longer as the plan found it, with both values."""
    here = machine.describe()
    root = Path(planned.suite_root)
    revision = __version__ if planned.embedded else suite.revision(root)
    pairs: list[tuple[str, Any, Any]] = [
        ("formulas", planned.formulas_sha256, _digest(Path(planned.formulas))),
        ("targets", planned.targets.sha256, _digest(Path(planned.targets.path))),
        ("suite revision", planned.suite_revision, revision),
    ]
    shapes = planned.value("shape_file")
    pairs += [("shape file", planned.shapes_sha256, _digest(Path(shapes)))] if shapes else []
    pairs += [(key, planned.machine.get(key), here[key]) for key in ("host", "cpu_model", "cpus")]
    return [f"{name}: {then} then, {now} now" for name, then, now in pairs if then != now]


def publish(finished: Report) -> Path:
    """Make a report the published set of its output folder; return the output folder."""
    output = _output_of(finished)
    with locks.exclusive(output / ".publish.lock"):
        publishing.publish(output, report.file_texts(finished))
    return output


def fold(runs: Iterable[str], output: Path, dry_run: bool) -> list[str]:
    """Merge runs into the published set of an output folder; return what changes."""
    from fusion import merge

    incoming = [_as_set(report.load(lookup.run(run, output))) for run in runs]
    files.check_writable(output)
    with nullcontext() if dry_run else locks.exclusive(output / ".publish.lock"):
        state = _published(output)
        changes: list[str] = []
        for run in incoming:
            effect = merge.fold(state, run)
            state, changes = effect.merged, [*changes, *effect.changes]
        if changes and state is not None and not dry_run:
            publishing.publish(output, results.file_texts(state))
    return changes


def calibrate(
    options: Options,
    around: Surroundings,
    output: str | None = None,
    force: bool = False,
    watcher: Watcher | None = None,
    wait: bool = True,
    effort: Effort | None = None,
) -> tuple[Path, Measured]:
    """Measure this machine's ceilings as a run is placed; write them as a targets file.

    Raise CalibrationError for a file that exists (unless ``force``) or a child that fails.
    """
    from fusion import calibration

    watcher, effort = watcher or Watcher(), effort or calibration.DEFAULT_EFFORT
    chosen = _settings(options, around)
    places = workspace.locate(around.environ, options.flaggems, options.python, options.targets)
    placement = numa.place(numa.topology(), chosen.numa_nodes, chosen.omp_threads, chosen.jobs)
    default = calibration.default_file(chosen.output_dir, str(machine.describe()["host"]))
    file = (around.folder / output).absolute() if output else default
    calibration.check(file, places.targets, force)
    with Stop() as stop:
        nodes = _nodes_of(placement.pinned, placement.bindings)
        with locks.nodes(nodes, "calibration", wait, watcher.tell, stop.check):
            # Another calibration, which this one waited for, may have written the file.
            calibration.check(file, places.targets, force)
            found = calibration.measure(
                placement, places.python, around.environ, effort, watcher.tell, stop.check
            )
            calibration.write(file, places.targets, found, force)
    return file, found


def write_report(name: str, output: Path, to: str | None, around: Surroundings) -> Path:
    """Write the page of results and its plots; return the page.

    They go to ``to``, else to ``report`` in the folder of the run or of the output, else here.
    """
    from fusion.page import html as page

    name = name or lookup.default(output)
    folder = Path(to) if to else (lookup.home(name, output) or Path()) / "report"
    return page.write(lookup.find(name, output), (around.folder / folder).absolute())


def output_folder(options: Options, around: Surroundings) -> Path:
    """Return where the runs are that the options speak of."""
    return _settings(options, around).output_dir


def run_to_resume(run: str, output: Path) -> Journal | None:
    """Find the run to go on with: the one asked for, else the newest unfinished one."""
    return lookup.run(run, output) if run else history.newest_unfinished(output)


def export_formulas(file: str, around: Surroundings) -> Path:
    """Write the formulas as Markdown to a file that must be given."""
    if not file:
        raise Refusal("export-formulas: expected a file to write, as formulas.md, found none")
    from fusion.formulas import markdown

    path = (around.folder / file).absolute()
    text = markdown.render(Catalogue.load(workspace.formula_file(around.environ)))
    try:
        files.write(path, text)
    except OSError as error:
        raise Refusal(f"{path}: expected a file that can be written, found: {error}") from error
    return path


def _measured(
    planned: Plan,
    kept: Journal,
    environ: Mapping[str, str],
    watcher: Watcher,
    wait: bool,
    again: Iterable[str] = (),
    differing: Iterable[str] = (),
    is_new: bool = False,
) -> Report:
    from fusion import export

    with Stop() as stop:

        def tick() -> None:
            stop.check()
            watcher.tick()

        with locks.nodes(_node_ids(planned), planned.run_id, wait, watcher.tell, tick):
            if is_new:
                journal.create(kept, plan.to_json(planned))
            with locks.run(kept.lock):
                _note_resumption(kept, is_new, differing)
                try:
                    Runner(planned, kept, environ, watcher.event, tick, tuple(again)).run()
                finally:
                    finished = report.load(kept)
                    report.save(finished, kept)
                    files.write(kept.junit, export.junit(_as_set(finished)))
    return finished


def _note_resumption(kept: Journal, is_new: bool, differing: Iterable[str]) -> None:
    if not is_new:
        earlier = files.read_json(kept.resumed) if kept.resumed.exists() else []
        note = {"when": plan.now(), "differences": list(differing)}
        files.write_json(kept.resumed, [*earlier, note])


def _node_ids(planned: Plan) -> list[int]:
    """List the nodes that children may run on; unpinned ones may run on any."""
    return _nodes_of(planned.pinned, planned.bindings)


def _nodes_of(pinned: bool, bindings: Iterable[numa.Binding]) -> list[int]:
    if pinned:
        return [0 if binding.node is None else binding.node for binding in bindings]
    return [node.id or 0 for node in numa.topology().nodes]


def _not_passed(found: Report) -> tuple[str, ...]:
    return tuple(line.operator for line in found.coverage if line.status not in outcome.SETTLED)


def _output_of(finished: Report) -> Path:
    folder = finished.journal.folder
    return folder.parent.parent if folder.parent.name == journal.RUNS else folder.parent


def _published(output: Path) -> Results | None:
    state = publishing.current(output)
    if state is None:
        return None
    return results.parse({name: (state / name).read_text() for name in journal.REPORT_FILES})


def _as_set(found: Report) -> Results:
    return results.parse(report.file_texts(found))


def _settings(options: Options, around: Surroundings) -> settings.Settings:
    return settings.resolve(options.settings, around.environ, around.dotenv, around.folder)


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None

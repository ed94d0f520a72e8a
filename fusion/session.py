"""Go the whole way: from the options of the command line to a plan, from a plan to a report."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from fusion import (
    Refusal,
    __version__,
    formulas,
    journal,
    machine,
    markdown,
    numa,
    plan,
    report,
    runner,
    settings,
    suite,
    targets,
    workspace,
)
from fusion import publish as publishing
from fusion.formulas import Catalogue
from fusion.plan import Plan, Request
from fusion.report import Report
from fusion.suite import Suite
from fusion.workspace import Workspace

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Stop a run because a signal asks for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)


@dataclass(frozen=True)
class Options:
    """Hold the texts of the command line; None where an option was not given."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    pipeline: str | None = None
    flaggems: str | None = None
    python: str | None = None
    targets: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """Hold what lies outside the program: environment, current folder, ``.env``."""

    environ: Mapping[str, str]
    folder: Path
    dotenv: Path


def prepare(options: Options, around: Surroundings) -> Plan:
    """Check everything that can be checked and plan the run, touching nothing on disk."""
    chosen = settings.resolve(options.settings, around.environ, around.dotenv, around.folder)
    journal.check_writable(chosen.output_dir)
    places, catalogue, found = survey(options, around)
    placement = numa.place(numa.topology(), chosen.numa_nodes, chosen.omp_threads, chosen.jobs)
    return plan.make(
        Request(options.operators, options.pipeline),
        chosen,
        places,
        catalogue,
        targets.load(places.targets),
        found,
        placement,
        machine.describe(),
    )


def survey(options: Options, around: Surroundings) -> tuple[Workspace, Catalogue, Suite]:
    """Find the places, the formulas and the benchmarks that the options lead to."""
    places = workspace.locate(around.environ, options.flaggems, options.python, options.targets)
    found = suite.scan(places.suite, places.embedded, __version__)
    return places, formulas.load(places.formulas), found


def execute(
    planned: Plan,
    environ: Mapping[str, str],
    listen: Callable[..., None],
) -> Report:
    """Carry out a plan and save its report in the run's folder, also when interrupted."""
    kept = journal.create(Path(planned.output_dir), planned.run_id, plan.to_json(planned))
    try:
        with _stopped_by_signals():
            runner.run(planned, environ, listen)
    finally:
        finished = report.load(kept)
        report.save(finished, kept)
    return finished


def publish(finished: Report) -> Path:
    """Make a report the published set of its output folder; return the folder's path."""
    output = Path(finished.plan.output_dir)
    publishing.publish(output, report.files(finished))
    return output


def export_formulas(file: str, around: Surroundings) -> Path:
    """Write the formulas as Markdown to a file that must be given."""
    if not file:
        raise Refusal("export-formulas: expected a file to write, as formulas.md, found none")
    path = (around.folder / file).absolute()
    text = markdown.render(formulas.load(workspace.formula_file(around.environ)))
    try:
        journal.write(path, text)
    except OSError as error:
        raise Refusal(f"{path}: expected a file that can be written, found: {error}") from error
    return path


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    def stop(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    previous = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

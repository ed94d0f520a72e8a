"""Every task of Fusion Metrics: parse, one or two library calls, print."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import Any

from invoke import Collection, Context, Exit, task

from fusion import cli, history, lookup, progress, report, session, terminal, workspace
from fusion.cli import (
    DRY_RUN,
    EVERYTHING,
    FAIL_ON,
    FAILED_TOO,
    FORCE,
    FORMAT,
    NO_WAIT,
    OPERATORS,
    OUTPUT,
    PLACES,
    RUN,
    RUN_NAME,
    THRESHOLD,
    TO,
    Option,
)
from fusion.errors import Refusal
from fusion.plan import Plan
from fusion.report import Report
from fusion.runner import RunError
from fusion.session import Surroundings, Watcher
from fusion.stopping import Interrupted

ROOT = Path(__file__).resolve().parent
FAILED, REFUSED, INTERRUPTED = 1, 2, 130
Given = dict[str, Any]


def _task(
    options: Iterable[Option] = (),
    name: str | None = None,
    aliases: Iterable[str] = (),
    takes_words: bool = False,
) -> Callable[..., Any]:
    """Make a task of a body that takes its options as one mapping and may refuse them."""
    options = tuple(options)

    def decorate(body: Callable[..., Any]) -> Any:
        @wraps(body)
        def guarded(context: Context, given: Given) -> Any:
            try:
                if empty := cli.without_value(sys.argv, options):
                    raise Refusal(f"{empty[0]}: expected a value, found none")
                return body(context, given)
            except Refusal as refusal:
                raise Exit(f"refused: {refusal}", code=REFUSED) from refusal

        called = (name or body.__name__, *aliases)
        words = sum(cli.bare_words(sys.argv[1:], word, options) for word in called)
        words = words if takes_words else 0
        return task(
            cli.taking(options, words)(guarded),
            name=name,
            aliases=tuple(aliases),
            help=cli.helps(options),
            iterable=cli.lists(options),
            positional=cli.positionals(words),
            auto_shortflags=False,
        )

    return decorate


@_task((OPERATORS, *RUN, NO_WAIT), aliases=["r"])
def run(context: Context, given: Given) -> None:
    """Measure operators, as --ops silu_and_mul,geglu; keep the result in its run folder."""
    if not cli.names(given["ops"]):
        raise Refusal("--ops: expected at least one operator, found none; 'inv list' shows them")
    _measure(given)


@_task((*RUN, NO_WAIT), name="all", aliases=["a"])
def all_operators(context: Context, given: Given) -> None:
    """Measure every operator that has a formula and a benchmark; publish the tables."""
    _measure(given)


@_task((RUN_NAME, OUTPUT, FAILED_TOO, FORCE, NO_WAIT), takes_words=True)
def resume(context: Context, given: Given) -> None:
    """Go on with a run, by default the newest unfinished one, by the plan that it saved."""
    around = _around()
    output = session.output_folder(cli.read(given), around)
    kept = session.run_to_resume(_one_run(given, "resume", needed=False), output)
    if kept is None:
        print("Every run is finished; 'inv run' or 'inv all' starts another.")
        return
    before = report.load(kept)
    if not session.work_left(before, given["failed"]):
        print(f"{terminal.summary(before)}\nRun {before.plan.run_id} is finished.")
        return
    with _progress(before.plan, session.left(before)) as watcher:
        found = _stoppable(
            lambda: session.resume(
                kept, around.environ, watcher, given["failed"], given["force"], not given["no_wait"]
            ),
            before.plan,
        )
    _conclude(found)


@_task((RUN_NAME, OUTPUT, DRY_RUN), takes_words=True)
def merge(context: Context, given: Given) -> None:
    """Fold runs, by id or path, into the published set: the newest passing results win."""
    output = session.output_folder(cli.read(given), _around())
    changes = session.fold(_runs(given, "merge"), output, given["dry_run"])
    print("\n".join(changes) or "Nothing changes: the published set has it all.")
    if changes:
        done = "This was a dry run: nothing was written." if given["dry_run"] else "Published:"
        print(done if given["dry_run"] else f"{done} {output}")


@_task((OUTPUT,))
def runs(context: Context, given: Given) -> None:
    """List the runs: id, when, suite, operators passed, other and left, state."""
    print(terminal.runs(history.entries(session.output_folder(cli.read(given), _around()))))


@_task((RUN_NAME, OUTPUT, FORMAT), takes_words=True)
def show(context: Context, given: Given) -> None:
    """Print results again: those of a run, of 'latest', or the 'published' set."""
    from fusion import export

    output = session.output_folder(cli.read(given), _around())
    form = _format(given, ("text", *export.FORMATS))
    name = _one_run(given, "show")
    kept = lookup.named_run(name, output) if form == "text" else None
    if kept:
        found = report.load(kept)
        print(f"{terminal.heading(found.plan, found.journal)}\n\n{terminal.result(found)}")
    else:
        print(export.written(lookup.find(name, output), "md" if form == "text" else form), end="")


@_task((RUN_NAME, OUTPUT, TO), "report", takes_words=True)
def write_report(context: Context, given: Given) -> None:
    """Write a page with roofline, rows, coverage and machine, of a run or the published set."""
    around = _around()
    output = session.output_folder(cli.read(given), around)
    name = _one_run(given, "report", needed=False)
    print(f"Wrote {session.write_report(name, output, given['to'], around)}, with its plots")


@_task((RUN_NAME, OUTPUT, THRESHOLD, FAIL_ON, EVERYTHING, FORMAT), "compare", takes_words=True)
def compare_results(context: Context, given: Given) -> None:
    """Compare A with B, runs, 'published' or CSVs: faster, slower, same, or can't tell."""
    from fusion.comparison import gate, verdict, writing

    output = session.output_folder(cli.read(given), _around())
    form = _format(given, writing.FORMATS)
    failing = gate.fail_on(given["fail_on"])
    threshold = verdict.threshold(given["threshold"])
    found = verdict.compare(*lookup.pair(_given_runs(given), output), threshold)
    if form == "csv":
        sys.stderr.writelines(f"{line}\n" for line in writing.lines_beside_csv(found))
    print(writing.written(found, form, given["all"]), end="", flush=True)
    if failing:
        print(gate.told(found, failing), file=sys.stderr)
    if gate.failures(found, failing):
        raise Exit(code=FAILED)


@_task(PLACES, name="list", aliases=["ls"])
def list_operators(context: Context, given: Given) -> None:
    """Show each operator: category, formula state, default dtype, benchmark."""
    _, catalogue, suite = session.survey(cli.read(given), _around())
    print(terminal.operators(catalogue, suite))


@_task((*cli.DOCTOR, FORMAT))
def doctor(context: Context, given: Given) -> None:
    """Say what would spoil a measurement on this machine, and the command that mends it."""
    from fusion import doctor as physician
    from fusion import examination

    form = _format(given, ("text", "json"))
    facts = examination.gather(_around().environ, given["flaggems"], given["python"])
    found = physician.examine(facts)
    print(
        json.dumps(physician.to_json(found), indent=1)
        if form == "json"
        else physician.render(found)
    )


@_task((*cli.CALIBRATE, NO_WAIT), takes_words=True)
def calibrate(context: Context, given: Given) -> None:
    """Measure this machine's own ceilings; write them as a file for --targets."""
    from fusion import calibration

    output = given["output"] or next(iter(cli.words(given)), None)
    watcher = Watcher(tell=lambda text: print(text, flush=True))
    try:
        file, found = session.calibrate(
            cli.read(given), _around(), output, given["force"], watcher, not given["no_wait"]
        )
    except Interrupted as interrupted:
        raise Exit(f"{interrupted}: stopped, and nothing was written", INTERRUPTED) from None
    print(f"{calibration.describe(found)}\nWrote {file}; use it with --targets {file}")


@_task((Option("file", "Markdown file to write", ""),), "export-formulas", ["export"], True)
def export_formulas(context: Context, given: Given) -> None:
    """Write every formula, in the operators' own argument names, as a Markdown table."""
    file = given["file"] or next(iter(cli.words(given)), "")
    print(f"Wrote {session.export_formulas(file, _around())}")


@_task((OPERATORS, *cli.AUDIT))
def audit(context: Context, given: Given) -> None:
    """Check the formulas: on recorded calls, or against what the real kernels touch."""
    from fusion.audit import tasks as audits

    text, is_right = audits.run(given, _around(), lambda line: print(line, flush=True))
    print(text)
    if not is_right:
        raise Exit(code=FAILED)


@_task((Option("select", "only tests whose name matches, as pytest -k", ""),))
def test(context: Context, given: Given) -> None:
    """Pass the tests."""
    chosen = f" -k {shlex.quote(given['select'])}" if given["select"] else ""
    _shell(context, f"-m pytest{chosen}")


@_task()
def check(context: Context, given: Given) -> None:
    """Pass every check: format, lint, types, tests."""
    for command in ("ruff format --check .", "ruff check .", "mypy", "pytest"):
        _shell(context, f"-m {command}")


def _around() -> Surroundings:
    return Surroundings(dict(os.environ), Path.cwd(), workspace.dotenv_file())


def _format(given: Given, known: Iterable[str]) -> str:
    asked, known = given["format"], tuple(known)
    if asked not in known:
        raise Refusal(f"--format: expected one of {', '.join(known)}, found {asked!r}")
    return str(asked)


def _given_runs(given: Given) -> tuple[str, ...]:
    return (*given["run"], *cli.words(given))


def _runs(given: Given, name: str) -> tuple[str, ...]:
    found = cli.names([*given["run"], *cli.words(given)])
    if not found:
        raise Refusal(f"{name}: expected a run, found none; 'inv runs' lists them")
    return found


def _one_run(given: Given, name: str, needed: bool = True) -> str:
    found = _runs(given, name) if needed else cli.names([*given["run"], *cli.words(given)])
    if len(found) > 1:
        raise Refusal(f"{name}: expected one run, found {', '.join(found)}; name one")
    return found[0] if found else ""


def _measure(given: Given) -> None:
    around = _around()
    planned = session.prepare(cli.read(given), around)
    if given["dry_run"]:
        print(terminal.dry_run(planned, around.environ))
        return
    print(terminal.heading(planned, planned.journal), flush=True)
    with _progress(planned, {job.operator: planned.repeat for job in planned.jobs}) as watcher:
        found = _stoppable(
            lambda: session.execute(planned, around.environ, watcher, not given["no_wait"]), planned
        )
    _conclude(found)


def _progress(planned: Plan, left: Mapping[str, int]) -> AbstractContextManager[Watcher]:
    return progress.shown(planned, left, history.seconds(Path(planned.output_dir)))


def _stoppable(measure: Callable[[], Report], planned: Plan) -> Report:
    go_on = f"'inv resume {planned.run_id}' goes on"
    try:
        return measure()
    except Interrupted as interrupted:
        raise Exit(f"{interrupted}: stopped, and all is kept; {go_on}", INTERRUPTED) from None
    except RunError as error:
        raise Exit(f"stopped: {error}; all up to it is kept; {go_on}", FAILED) from error


def _conclude(found: Report) -> None:
    print(f"\n{terminal.result(found)}\nResult: {found.journal.folder}")
    if found.plan.publishes:
        print(f"Published: {session.publish(found)}")
    if found.exit_code:
        raise Exit(code=found.exit_code)


def _shell(context: Context, arguments: str) -> None:
    command = f"{shlex.quote(sys.executable)} {arguments}"
    with context.cd(str(ROOT)):
        done = context.run(command, warn=True, in_stream=False)
    if done is None or not done.ok:
        raise Exit(code=FAILED)


namespace = Collection(
    run,
    all_operators,
    resume,
    merge,
    runs,
    show,
    write_report,
    compare_results,
    doctor,
    calibrate,
    list_operators,
    export_formulas,
    audit,
    test,
    check,
)

"""Every task of Fusion Metrics: parse, one or two library calls, print."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

from invoke import Collection, Context, Exit, task

from fusion import Refusal, cli, session, terminal, workspace
from fusion.cli import OPERATORS, PLACES, RUN, Option
from fusion.report import Report
from fusion.runner import Event
from fusion.session import Interrupted, Surroundings

ROOT = Path(__file__).resolve().parent
FAILED, REFUSED, INTERRUPTED = 1, 2, 130
Given = dict[str, Any]


def _task(
    options: Iterable[Option] = (), name: str | None = None, aliases: Iterable[str] = ()
) -> Callable[..., Any]:
    """Make a task of a body that takes its options as one mapping and may refuse them."""
    options = tuple(options)

    def decorate(body: Callable[..., Any]) -> Any:
        @wraps(body)
        def guarded(context: Context, given: Given) -> Any:
            try:
                return body(context, given)
            except Refusal as refusal:
                raise Exit(f"refused: {refusal}", code=REFUSED) from refusal

        return task(
            cli.taking(options)(guarded),
            name=name,
            aliases=tuple(aliases),
            help=cli.helps(options),
            iterable=cli.lists(options),
            auto_shortflags=False,
        )

    return decorate


def _around() -> Surroundings:
    return Surroundings(dict(os.environ), Path.cwd(), workspace.dotenv_file())


@_task((OPERATORS, *RUN), aliases=["r"])
def run(context: Context, given: Given) -> None:
    """Measure operators, as --ops silu_and_mul,geglu; keep the result in its run folder."""
    if not cli.names(given["ops"]):
        raise Refusal("--ops: expected at least one operator, found none; 'inv list' shows them")
    report = _measure(given)
    if report is not None:
        _finish(report)


@_task(RUN, name="all", aliases=["a"])
def all_operators(context: Context, given: Given) -> None:
    """Measure every operator that has a formula and a benchmark; publish the tables."""
    report = _measure(given)
    if report is not None:
        print(f"Published: {session.publish(report)}")
        _finish(report)


@_task(PLACES, name="list", aliases=["ls"])
def list_operators(context: Context, given: Given) -> None:
    """Show each operator: category, formula state, default dtype, benchmark."""
    _, catalogue, suite = session.survey(cli.read(given), _around())
    print(terminal.operators(catalogue, suite))


@_task(
    (Option("file", "Markdown file to write, as formulas.md", ""),), "export-formulas", ["export"]
)
def export_formulas(context: Context, given: Given) -> None:
    """Write every formula, in the operators' own argument names, as a Markdown table."""
    print(f"Wrote {session.export_formulas(given['file'], _around())}")


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


def _shell(context: Context, arguments: str) -> None:
    command = f"{shlex.quote(sys.executable)} {arguments}"
    with context.cd(str(ROOT)):
        done = context.run(command, warn=True, in_stream=False)
    if done is None or not done.ok:
        raise Exit(code=FAILED)


def _measure(given: Given) -> Report | None:
    around = _around()
    planned = session.prepare(cli.read(given), around)
    if given["dry_run"]:
        print(terminal.dry_run(planned, around.environ))
        return None
    print(terminal.heading(planned), flush=True)
    try:
        report = session.execute(planned, around.environ, _tell)
    except Interrupted as interrupted:
        folder = planned.journal.folder
        raise Exit(
            f"{interrupted}: stopped; what was measured is in {folder}", INTERRUPTED
        ) from None
    print(f"\n{terminal.result(report)}\nResult: {planned.journal.folder}")
    return report


def _tell(event: Event) -> None:
    print(terminal.event_line(event), flush=True)


def _finish(report: Report) -> None:
    if report.exit_code:
        raise Exit(code=report.exit_code)


namespace = Collection(run, all_operators, list_operators, export_formulas, test, check)

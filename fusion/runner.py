"""Carry out a plan: one child per binding at a time, each operator to its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime

from fusion import journal, outcome, records
from fusion.command import Command
from fusion.journal import Attempt, Journal
from fusion.outcome import Ending, Outcome, Tried, Verdict
from fusion.plan import Job, Plan
from fusion.process import Child

TICK_SECONDS = 0.05


@dataclass(frozen=True)
class Event:
    """Tell a listener what happens: kinds are started, fallback, ended."""

    kind: str
    job: Job
    dtype: str | None
    attempt: Attempt
    text: str = ""
    outcome: Outcome | None = None


Listener = Callable[[Event], None]


def run(plan: Plan, environ: Mapping[str, str], listen: Listener) -> None:
    """Run every job that has no outcome yet; on an exception no child is left behind."""
    children: set[Child] = set()
    lanes = [_lane(plan, index, environ, listen, children) for index in range(len(plan.bindings))]
    try:
        while lanes:
            lanes = [lane for lane in lanes if next(lane, _FINISHED) is not _FINISHED]
            time.sleep(TICK_SECONDS if lanes else 0)
    finally:
        _stop(children)


_FINISHED = object()


def _lane(
    plan: Plan, binding: int, environ: Mapping[str, str], listen: Listener, children: set[Child]
) -> Generator[None, None, None]:
    """Run one binding's jobs in order, giving way while a child runs."""
    for job in plan.jobs:
        if job.binding == binding and not plan.journal.is_done(job.operator):
            yield from _operator(plan, job, environ, listen, children)


def _operator(
    plan: Plan, job: Job, environ: Mapping[str, str], listen: Listener, children: set[Child]
) -> Generator[None, None, None]:
    started = _now()
    tried: list[Tried] = []
    first = _next_index(plan.journal, job.operator)
    for index, dtype in enumerate(job.dtypes, start=first):
        attempt = plan.journal.attempt(job.operator, index)
        listen(Event("started", job, dtype, attempt))
        command = plan.command(job, dtype, index, environ)
        verdict, ending = yield from _attempt(plan, command, attempt, environ, children)
        tried.append(_tried(index, dtype, verdict, ending))
        if not verdict.is_dtype_failure:
            break
        following = index - first + 1
        if following < len(job.dtypes):
            listen(Event("fallback", job, job.dtypes[following], attempt, verdict.reason))
    concluded = outcome.conclude(job.operator, tried, started, _now())
    journal.write_json(plan.journal.outcome(job.operator), outcome.to_json(concluded))
    listen(Event("ended", job, tried[-1].dtype, attempt, outcome=concluded))


def _attempt(
    plan: Plan,
    command: Command,
    attempt: Attempt,
    environ: Mapping[str, str],
    children: set[Child],
) -> Generator[None, None, tuple[Verdict, Ending]]:
    attempt.folder.mkdir(parents=True)
    facts = {
        "argv": command.argv,
        "folder": command.folder,
        "environment": command.environment,
        "unset": command.unset,
        "shell": command.shell(),
        "started": _now(),
    }
    journal.write_json(attempt.command, facts)
    child = Child(command, environ, attempt.output, plan.value("timeout"))
    children.add(child)
    while (ending := child.poll()) is None:
        yield
    children.discard(child)
    attempt.adopt_record()
    journal.write_json(attempt.command, {**facts, "ended": _now(), "ending": vars(ending)})
    return outcome.judge(records.read(attempt), ending, last_line(attempt)), ending


def last_line(attempt: Attempt) -> str:
    """Return the last line that says something in a child's output."""
    with attempt.output.open("rb") as stream:
        stream.seek(max(0, attempt.output.stat().st_size - 4096))
        lines = stream.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _tried(index: int, dtype: str | None, verdict: Verdict, ending: Ending) -> Tried:
    return Tried(
        index=index,
        dtype=dtype,
        returncode=ending.returncode,
        seconds=round(ending.seconds, 3),
        status=verdict.status,
        reason=verdict.reason,
        measured=verdict.measured,
        errors=verdict.errors,
    )


def _next_index(kept: Journal, operator: str) -> int:
    index = 0
    while kept.attempt(operator, index).folder.exists():
        index += 1
    return index


def _stop(children: set[Child]) -> None:
    for child in children:
        child.terminate()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(TICK_SECONDS)
    for child in children:
        child.kill()


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")

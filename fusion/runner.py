"""Carry out a plan: one child per binding at a time, each operator to its outcome."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusion import files, outcome, plan, records, repeats, state
from fusion.command import Command
from fusion.contract import UNWRITABLE
from fusion.journal import Attempt, Journal
from fusion.outcome import Ending, Outcome, Tried, Verdict
from fusion.plan import Job, Plan
from fusion.process import Child

TICK_SECONDS = 0.05
_STOP_SECONDS = 5.0
_FINISHED = object()


class RunError(Exception):
    """Say why a run had to stop; what it measured is kept, and it can be resumed."""


@dataclass(frozen=True)
class Event:
    """Tell a listener what happens: kinds are started, fallback, ended."""

    kind: str
    job: Job
    dtype: str | None
    attempt: Attempt
    text: str = ""
    outcome: Outcome | None = None
    repeat: int = 0


@dataclass
class Runner:
    """Run what a plan still owes, and what did not pass of the operators in ``again``.

    ``listen`` is told each event; ``tick`` is called many times a second and may raise to stop.
    """

    plan: Plan
    kept: Journal
    environ: Mapping[str, str]
    listen: Callable[[Event], None]
    tick: Callable[[], None] = lambda: None
    again: Collection[str] = ()
    _children: set[Child] = field(default_factory=set)

    def run(self) -> None:
        """Run to the end; on an exception no child is left behind."""
        lanes = [self._lane(index) for index in range(len(self.plan.bindings))]
        try:
            while lanes:
                lanes = [lane for lane in lanes if next(lane, _FINISHED) is not _FINISHED]
                self.tick()
                time.sleep(TICK_SECONDS if lanes else 0)
        except OSError as error:
            raise RunError(f"{self.kept.folder}: {error}") from error
        finally:
            self._stop()

    def _lane(self, binding: int) -> Generator[None, None, None]:
        """Run one binding's jobs in order, giving way while a child runs.

        Repeats are interleaved: every operator once, then every operator again, so that what
        changes on the machine meanwhile meets all of them.
        """
        for repeat in range(self.plan.repeat):
            for job in self.plan.jobs:
                if job.binding == binding and self._is_left(job, repeat):
                    yield from self._operator(job, repeat)

    def _is_left(self, job: Job, repeat: int) -> bool:
        if repeat in repeats.owed(self.kept, job.operator, self.plan.repeat):
            return True
        is_asked = job.operator in self.again and self.kept.is_done(job.operator, repeat)
        return is_asked and repeats.status(self.kept, job.operator, repeat) not in outcome.SETTLED

    def _operator(self, job: Job, repeat: int) -> Generator[None, None, None]:
        started, before = plan.now(), self._state(job)
        tried: list[Tried] = []
        first = self._next_index(job.operator, repeat)
        dtypes = self._dtypes(job, repeat)
        for index, dtype in enumerate(dtypes, start=first):
            attempt = self.kept.attempt(job.operator, index, repeat)
            self.listen(Event("started", job, dtype, attempt, repeat=repeat))
            command = self.plan.command(job, dtype, attempt.folder, self.kept, self.environ)
            verdict, ending = yield from self._attempt(command, attempt)
            tried.append(_tried(index, dtype, verdict, ending))
            following = dtypes[index - first + 1 :]
            if not verdict.is_dtype_failure or not following:
                break
            self.listen(Event("fallback", job, following[0], attempt, verdict.reason))
        concluded = outcome.conclude(
            job.operator,
            tried,
            started,
            plan.now(),
            self._earlier(job.operator, repeat),
            repeat=repeat,
            before=before,
            after=self._state(job) | {"own_seconds": _cpu_seconds(tried)},
        )
        files.write_json(self.kept.outcome(job.operator, repeat), outcome.to_json(concluded))
        self.listen(Event("ended", job, tried[-1].dtype, attempt, outcome=concluded, repeat=repeat))

    def _dtypes(self, job: Job, repeat: int) -> tuple[str | None, ...]:
        """List the dtypes to try; a repeat begins with the one that counted the first time."""
        if not repeat or not self.kept.is_done(job.operator):
            return job.dtypes
        counted = self._outcome(job.operator, 0).counting.dtype
        return job.dtypes[job.dtypes.index(counted) :] if counted in job.dtypes else job.dtypes

    def _state(self, job: Job) -> dict[str, Any]:
        return state.snapshot(self.plan.bindings[job.binding].cpus)

    def _attempt(
        self, command: Command, attempt: Attempt
    ) -> Generator[None, None, tuple[Verdict, Ending]]:
        attempt.folder.mkdir(parents=True)
        facts = {
            "argv": command.argv,
            "folder": command.folder,
            "environment": command.environment,
            "unset": command.unset,
            "shell": command.shell(),
            "started": plan.now(),
        }
        files.write_json(attempt.command, facts)
        child = Child(command, self.environ, attempt.output, self.plan.value("timeout"))
        self._children.add(child)
        while (ending := child.poll()) is None:
            yield
        self._children.discard(child)
        attempt.adopt_record()
        files.write_json(attempt.command, {**facts, "ended": plan.now(), "ending": vars(ending)})
        if ending.returncode == UNWRITABLE:
            raise RunError(f"{attempt.cases}: could not be written: {last_line(attempt)}")
        return outcome.judge(records.read(attempt), ending, last_line(attempt)), ending

    def _next_index(self, operator: str, repeat: int) -> int:
        index = 0
        while self.kept.attempt(operator, index, repeat).folder.exists():
            index += 1
        return index

    def _earlier(self, operator: str, repeat: int) -> tuple[Tried, ...]:
        if not self.kept.is_done(operator, repeat):
            return ()
        return self._outcome(operator, repeat).attempts

    def _outcome(self, operator: str, repeat: int) -> Outcome:
        return outcome.from_json(files.read_json(self.kept.outcome(operator, repeat)))

    def _stop(self) -> None:
        for child in self._children:
            child.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline and any(child.poll() is None for child in self._children):
            time.sleep(TICK_SECONDS)
        for child in self._children:
            child.kill()


def last_line(attempt: Attempt) -> str:
    """Return the last line that says something in a child's output."""
    with attempt.output.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4096))
        lines = stream.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _cpu_seconds(tried: list[Tried]) -> float | None:
    taken = [each.cpu_seconds for each in tried]
    return None if None in taken else sum(seconds or 0.0 for seconds in taken)


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
        cpu_seconds=None if ending.cpu_seconds is None else round(ending.cpu_seconds, 3),
    )

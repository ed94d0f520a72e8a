"""Show how a run goes: a live line per binding on a terminal, plain lines with times elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from fusion import cpulist, records, terminal
from fusion.plan import Job, Plan
from fusion.runner import Event
from fusion.session import Watcher

_LOOK_SECONDS = 0.5


def time_left(
    jobs: Collection[Job], running: Mapping[str, float], seconds: Mapping[str, float]
) -> float | None:
    """Estimate the seconds until the last binding is done, from earlier durations.

    ``jobs`` have no outcome yet; ``running`` tells for how long those under way have run. None
    where nothing is known of the jobs. A job of unknown duration counts as the mean of the others.
    """
    known = [seconds[job.operator] for job in jobs if job.operator in seconds]
    if not known:
        return None
    usual = sum(known) / len(known)
    loads: dict[int, float] = {}
    for job in jobs:
        remaining = seconds.get(job.operator, usual) - running.get(job.operator, 0.0)
        loads[job.binding] = loads.get(job.binding, 0.0) + max(0.0, remaining)
    return max(loads.values())


def duration(seconds: float) -> str:
    """Write a duration as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def shown(planned: Plan, done: Collection[str], seconds: Mapping[str, float]) -> Iterator[Watcher]:
    """Show a run's progress on standard output while the context lasts."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if console.is_terminal:
        with _Live(planned, done, seconds, console) as live:
            yield Watcher(live.event, live.look, live.tell)
    else:
        yield Watcher(_line(console.print), tell=_stamped(console.print))


def _stamped(write: Callable[[str], Any]) -> Callable[[str], None]:
    return lambda text: write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}")


def _line(write: Callable[[str], Any]) -> Callable[[Event], None]:
    tell = _stamped(write)
    return lambda event: tell(terminal.event_line(event))


class _Live:
    """Keep the lines of the bindings and the bar of the run up to date."""

    def __init__(
        self, planned: Plan, done: Collection[str], seconds: Mapping[str, float], console: Console
    ) -> None:
        self._plan = planned
        self._seconds = seconds
        self._left = {job.operator: job for job in planned.jobs if job.operator not in done}
        self._running: dict[int, tuple[Event, float]] = {}
        self._looked = 0.0
        self._progress = Progress(
            SpinnerColumn(finished_text=" "), TextColumn("{task.description}"), BarColumn(24),
            console=console, auto_refresh=False, transient=True,
        )  # fmt: skip
        self._bars: dict[int, TaskID] = {
            index: self._progress.add_task(self._idle(index), total=None)
            for index in range(len(planned.bindings))
        }
        self._bar = self._progress.add_task("run", total=len(self._left) or 1)

    def __enter__(self) -> _Live:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def event(self, event: Event) -> None:
        """Follow an event of the run, and print the ones worth keeping."""
        if event.kind == "started":
            self._running[event.job.binding] = (event, time.monotonic())
        else:
            self._progress.print(terminal.event_line(event))
        if event.kind == "ended":
            self._running.pop(event.job.binding, None)
            self._left.pop(event.job.operator, None)
            self._progress.update(self._bar, advance=1)
        self._looked = 0.0

    def tell(self, text: str) -> None:
        """Print a line above the live ones."""
        self._progress.print(text)

    def look(self) -> None:
        """Redraw, at most twice a second."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for index, bar in self._bars.items():
            self._progress.update(bar, description=self._description(index))
        self._progress.update(self._bar, description=self._summary())
        self._progress.refresh()

    def _description(self, index: int) -> str:
        if index not in self._running:
            return self._idle(index)
        event, since = self._running[index]
        cases = len(records.from_case_file(event.attempt.cases).cases)
        elapsed = duration(time.monotonic() - since)
        return f"{self._place(index)}: {event.job.operator}, case {cases}, {elapsed}"

    def _summary(self) -> str:
        now = time.monotonic()
        running = {event.job.operator: now - since for event, since in self._running.values()}
        left = time_left(list(self._left.values()), running, self._seconds)
        estimate = "" if left is None else f", about {duration(left)} left"
        return f"{len(self._left)} operators left{estimate}"

    def _idle(self, index: int) -> str:
        return f"{self._place(index)}: idle"

    def _place(self, index: int) -> str:
        binding = self._plan.bindings[index]
        cpus = f"CPUs {cpulist.render(binding.cpus)}"
        return cpus if binding.node is None else f"node {binding.node} ({cpus})"

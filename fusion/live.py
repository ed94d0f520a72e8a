"""Keep a live line per binding and a bar for the run on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from fusion import cpulist, records, terminal
from fusion.estimate import duration, time_left
from fusion.outcome import RESULTS
from fusion.plan import Job, Plan
from fusion.runner import Event

_LOOK_SECONDS = 0.5


class Live:
    """Keep the lines of the bindings and the bar of the run up to date."""

    def __init__(
        self, planned: Plan, left: Mapping[str, int], seconds: Mapping[str, float]
    ) -> None:
        self._plan = planned
        self._seconds = seconds
        self._left = {job: left[job.operator] for job in planned.jobs if left.get(job.operator)}
        self._running: dict[int, tuple[Event, float]] = {}
        self._looked = 0.0
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            BarColumn(24),
            console=Console(highlight=False, markup=False, soft_wrap=True),
            auto_refresh=False,
            transient=True,
        )
        self._bars: dict[int, TaskID] = {
            index: self._progress.add_task(self._idle(index), total=None)
            for index in range(len(planned.bindings))
        }
        self._bar = self._progress.add_task("run", total=sum(self._left.values()) or 1)

    def __enter__(self) -> Live:
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
            self._progress.update(self._bar, advance=self._finish(event))
        self._looked = 0.0

    def _finish(self, event: Event) -> int:
        """Strike off what an event ended; a measurement that failed is not repeated."""
        left = self._left.pop(event.job, 0)
        has_result = event.outcome is not None and event.outcome.status in RESULTS
        if has_result and left > 1:
            self._left[event.job] = left - 1
        return 1 if has_result else left

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
        left = time_left(self._jobs(), running, self._seconds)
        estimate = "" if left is None else f", about {duration(left)} left"
        return f"{len(self._left)} operators left{estimate}"

    def _jobs(self) -> list[Job]:
        return [job for job, count in self._left.items() for _ in range(count)]

    def _idle(self, index: int) -> str:
        return f"{self._place(index)}: idle"

    def _place(self, index: int) -> str:
        binding = self._plan.bindings[index]
        cpus = f"CPUs {cpulist.render(binding.cpus)}"
        return cpus if binding.node is None else f"node {binding.node} ({cpus})"

"""Estimate how long a run still takes, from earlier runs of the same operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fusion.plan import Job


def time_left(
    jobs: Collection[Job], running: Mapping[str, float], seconds: Mapping[str, float]
) -> float | None:
    """Estimate the seconds until the last binding is done, from earlier durations.

    ``jobs`` have no outcome yet, a job being there once for each of its repeats; ``running`` tells
    for how long those under way have run. None where nothing is known of the jobs. A job of unknown
    duration counts as the mean of the others.
    """
    known = [seconds[job.operator] for job in jobs if job.operator in seconds]
    if not known:
        return None
    usual = sum(known) / len(known)
    running = dict(running)
    loads: dict[int, float] = {}
    for job in jobs:
        remaining = seconds.get(job.operator, usual) - running.pop(job.operator, 0.0)
        loads[job.binding] = loads.get(job.binding, 0.0) + max(0.0, remaining)
    return max(loads.values())


def duration(seconds: float) -> str:
    """Write a duration as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

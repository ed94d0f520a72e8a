"""Know the runs of an output folder: find one, tell their states, learn durations from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion import files, journal, locks, publish, repeats
from fusion.errors import Refusal
from fusion.journal import Journal
from fusion.text import nearest

_LEARN_FROM = 5


class HistoryError(Refusal):
    """Refuse a run that is not there."""


@dataclass(frozen=True)
class Entry:
    """Sum up one run. States: running, interrupted, finished, published."""

    run_id: str
    created: str
    suite: str
    passed: int
    other: int
    left: int
    state: str


def journals(output: Path) -> list[Journal]:
    """List the runs of an output folder, newest first."""
    folders = sorted((output / journal.RUNS).glob("*"), key=lambda path: path.name, reverse=True)
    return [Journal(folder) for folder in folders if (folder / journal.PLAN).is_file()]


def find(output: Path, run: str) -> Journal:
    """Find a run by id or by the path of its folder; raise HistoryError naming the nearest."""
    for folder in (output / journal.RUNS / run, Path(run)):
        if (folder / journal.PLAN).is_file():
            return Journal(folder.absolute())
    known = [kept.folder.name for kept in journals(output)]
    raise HistoryError(
        f"{run}: expected a run of {output} or the folder of a run, found none"
        f"{nearest(run, known)}; 'inv runs' lists them"
    )


def newest_unfinished(output: Path) -> Journal | None:
    """Return the newest run that has operators left, None where every run is finished."""
    return next((kept for kept in journals(output) if left(kept, _plan(kept))), None)


def left(kept: Journal, planned: dict[str, Any]) -> list[str]:
    """List the operators of a run that have no outcome."""
    operators = (job["operator"] for job in planned["jobs"])
    repeat = planned.get("repeat", 1)
    return [operator for operator in operators if repeats.owed(kept, operator, repeat)]


def entries(output: Path) -> Iterator[Entry]:
    """Sum up every run, newest first."""
    published = _published_runs(output)
    for kept in journals(output):
        planned = _plan(kept)
        statuses = list(_statuses(kept, planned))
        remaining = len(left(kept, planned))
        passed = statuses.count("PASSED")
        yield Entry(
            run_id=kept.folder.name,
            created=planned["created"],
            suite=planned["suite"],
            passed=passed,
            other=len(statuses) - passed,
            left=remaining,
            state=_state(kept, remaining, kept.folder.name in published),
        )


def seconds(output: Path) -> dict[str, float]:
    """Return how long operators took when they last passed, from the newest runs."""
    known: dict[str, float] = {}
    for kept in journals(output)[:_LEARN_FROM]:
        for path in kept.folder.glob(f"ops/*/{journal.OUTCOME}"):
            ended = _readable(path)
            if ended.get("status") == "PASSED":
                taken = sum(tried["seconds"] for tried in ended["attempts"])
                known.setdefault(ended["operator"], taken)
    return known


def _state(kept: Journal, remaining: int, is_published: bool) -> str:
    if locks.is_held(kept.lock):
        return "running"
    if remaining:
        return "interrupted"
    return "published" if is_published else "finished"


def _statuses(kept: Journal, planned: dict[str, Any]) -> Iterator[str]:
    """Give the status of each operator that ended: of its repeats, the first that is not PASSED."""
    for job in planned["jobs"]:
        operator = job["operator"]
        done = repeats.done(kept, operator, planned.get("repeat", 1))
        ended = [found for index in done if (found := repeats.status(kept, operator, index))]
        if ended:
            yield next((status for status in ended if status != "PASSED"), "PASSED")


def _published_runs(output: Path) -> set[str]:
    state = publish.current(output)
    manifest = _readable(state / journal.MANIFEST) if state else {}
    return set(manifest.get("runs", {}))


def _plan(kept: Journal) -> dict[str, Any]:
    planned = files.read_json(kept.plan)
    return planned if isinstance(planned, dict) else {}


def _readable(path: Path) -> dict[str, Any]:
    try:
        value = files.read_json(path)
    except files.FileError:
        return {}
    return value if isinstance(value, dict) else {}

"""Read what an audit's child wrote down: one JSON line an event."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Touched:
    """One tensor of a call: its size and the distinct bytes read before written, and written."""

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    read: int
    written: int


@dataclass(frozen=True)
class Observation:
    """One case of a benchmark as its kernel ran, or the error that kept it from running.

    ``formula`` is the value that the catalogue gives for the same call, in the unit of ``metric``.
    ``dots`` and ``sums`` are multiply-adds that masks do not exclude, of ``tl.dot`` and PyTorch's
    products, and of sums over products; ``executed`` holds all that the tiles of the former did.
    ``substituted`` tells that the benchmark itself never calls FlagGems' function of its name.
    ``stray`` counts bytes outside every tensor, ``beyond`` those in an argument's storage but
    outside its view, ``captured`` those of tensors that are neither arguments nor results.
    """

    operator: str
    op_name: str
    node: str
    case: int
    arguments: str
    metric: str | None
    formula: int | None
    formula_error: str = ""
    substituted: bool = False
    error: str = ""
    read: int = 0
    written: int = 0
    dots: int = 0
    sums: int = 0
    executed: int = 0
    stray: int = 0
    beyond: int = 0
    captured: int = 0
    unobserved: tuple[str, ...] = ()
    tensors: tuple[Touched, ...] = ()
    seconds: float = 0.0

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the matrix products: of dots, or of sums where there are no dots."""
        return self.dots or self.sums


@dataclass(frozen=True)
class Ending:
    """How a test of an operator ended, or what it was doing when its process died."""

    operator: str
    node: str
    outcome: str
    message: str


@dataclass(frozen=True)
class Journal:
    """All that one child left behind. ``running`` is the operator that it did not finish."""

    observations: tuple[Observation, ...]
    endings: tuple[Ending, ...]
    uncollected: dict[str, str]
    running: str | None


def read(path: Path) -> Journal:
    """Read a child's file; a torn last line is left out, a missing file is an empty journal."""
    return parse(path.read_text(errors="replace").splitlines() if path.exists() else ())


def parse(lines: Iterable[str]) -> Journal:
    """Read a child's events from their lines."""
    events = [event for event in map(_event, lines) if event]
    started = [each["operator"] for each in events if each["event"] == "test_started"]
    ended = [each for each in events if each["event"] == "test" and each["phase"] == "call"]
    return Journal(
        observations=tuple(_observation(each) for each in events if each["event"] == "case"),
        endings=tuple(
            Ending(each["operator"], each["node"], each["outcome"], each["message"])
            for each in events
            if each["event"] == "test"
        ),
        uncollected={
            each["file"]: each["message"] for each in events if each["event"] == "collect"
        },
        running=started[-1] if len(started) > len(ended) else None,
    )


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and "event" in event else {}


def _observation(event: dict[str, Any]) -> Observation:
    return Observation(
        operator=event["operator"],
        op_name=event["op_name"],
        node=event["node"],
        case=event["case"],
        arguments=_spelled(event["arguments"], event["options"]),
        metric=event["metric"],
        formula=event["formula"],
        formula_error=event.get("formula_error", ""),
        substituted=event.get("substituted", False),
        error=event.get("error", ""),
        read=event.get("read", 0),
        written=event.get("written", 0),
        dots=event.get("multiply_adds", 0),
        sums=event.get("multiply_adds_of_sums", 0),
        executed=event.get("multiply_adds_executed", 0),
        stray=event.get("stray", 0),
        beyond=event.get("beyond", 0),
        captured=sum(each["read"] + each["written"] for each in event.get("captured", ())),
        unobserved=tuple(event.get("unobserved", ())),
        tensors=tuple(_touched(each) for each in event.get("tensors", ())),
        seconds=event.get("seconds", 0.0),
    )


def _touched(held: dict[str, Any]) -> Touched:
    return Touched(
        name=held["name"],
        role=held["role"],
        shape=tuple(held["shape"]),
        dtype=held["dtype"],
        size=held["bytes"],
        read=held["read"],
        written=held["written"],
    )


def _spelled(arguments: list[Any], options: dict[str, Any]) -> str:
    return ", ".join([*map(str, arguments), *(f"{key}={value}" for key, value in options.items())])

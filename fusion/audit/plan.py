"""Say what an audit's child is to do. Plain values, kept in a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "FUSION_AUDIT_PLAN"


@dataclass(frozen=True)
class Target:
    """Select the tests of one operator: absolute files, a marker (or none), maybe functions."""

    operator: str
    marker: str | None
    files: tuple[str, ...]
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Bound an audit: at most ``cases`` a benchmark, ``seconds`` and ``bytes_`` of inputs a case.

    ``formulas`` is the catalogue to evaluate, ``shapes`` the file of small shapes (None: the
    suite's own), and ``observations`` the file that the child appends to. With ``recording`` each
    call is written to that file and no kernel runs; ``bytes_`` is then the largest tensor that
    gets values.
    """

    targets: tuple[Target, ...]
    observations: Path
    formulas: Path | None
    shapes: Path | None
    cases: int = 3
    seconds: float = 60.0
    bytes_: int = 1 << 29
    recording: Path | None = None

    def write(self, path: Path) -> None:
        """Write the plan for a child to read."""
        path.write_text(json.dumps(asdict(self), default=str, indent=1))

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a plan that :meth:`write` wrote."""
        held = json.loads(path.read_text())
        targets = tuple(
            Target(t["operator"], t["marker"], tuple(t["files"]), tuple(t["tests"]))
            for t in held["targets"]
        )
        formulas = held["formulas"]
        return cls(
            targets=targets,
            observations=Path(held["observations"]),
            formulas=Path(formulas) if formulas else None,
            shapes=Path(held["shapes"]) if held["shapes"] else None,
            cases=held["cases"],
            seconds=held["seconds"],
            bytes_=held["bytes_"],
            recording=Path(held["recording"]) if held["recording"] else None,
        )

"""Record the calls of FlagGems' own benchmarks, at the core level, running no kernel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fusion.audit import proof
from fusion.audit.plan import Plan, Target
from fusion.audit.verdict import Finding
from fusion.formulas.catalogue import Catalogue

# A tensor of more bytes is recorded by its shape and dtype alone.
LARGEST = 1 << 28


def record(
    flaggems: Path,
    python: str,
    formula_file: Path,
    path: Path,
    operators: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
    shapes: Path | None = None,
    largest: int = LARGEST,
) -> int:
    """Write the calls of operators, or of all, to a new file; return how many there are.

    ``python`` is an interpreter that has the ``audit`` extra. ``shapes`` is a file of small shapes,
    as ``proof.SHAPES``, in place of the suite's core level; ``largest`` is in bytes. ``tell`` also
    gets a line for everything that is left out, with the reason. The file grows call by call, and
    keeps what it has when the recording is interrupted.

    Raise AuditRefused when the file is there already, its folder is not, the interpreter lacks a
    package, or there is nothing to record.
    """
    _check(path)
    proof.check_python(python)
    catalogue = Catalogue.load(formula_file)
    chosen = [catalogue.resolve(name) for name in operators] or list(catalogue.formulas.values())
    targets, missing = proof.find_targets(flaggems, chosen)
    with tempfile.TemporaryDirectory(prefix="fusion-record-") as folder:
        plan = _plan(targets, path, Path(folder), shapes, largest)
        found = (
            proof.run_all(flaggems, python, plan, Path(folder), tell, environ) if targets else []
        )
    reasons = _left_out([*missing, *found])
    for reason in reasons:
        tell(f"left out: {reason}")
    if not path.exists():
        told = "; ".join(reasons) or "no benchmark made any"
        raise proof.AuditRefused(f"{path}: expected calls to record, found none: {told}")
    return path.read_bytes().count(b"\n")


def _check(path: Path) -> None:
    if path.exists():
        raise proof.AuditRefused(f"{path}: expected a file to make, found one; name another")
    if not path.absolute().parent.is_dir():
        raise proof.AuditRefused(f"{path}: expected its folder, found none; make it first")


def _plan(
    targets: Sequence[Target], path: Path, folder: Path, shapes: Path | None, largest: int
) -> Plan:
    return Plan(
        targets=tuple(targets),
        observations=folder / "observations.jsonl",
        formulas=None,
        shapes=shapes.absolute() if shapes else None,
        cases=1 << 30,
        bytes_=largest,
        recording=path.absolute(),
    )


def _left_out(found: Sequence[Finding]) -> list[str]:
    told = (f"{each.operator}: {each.reason.rpartition('LeftOutError: ')[2]}" for each in found)
    return list(dict.fromkeys(told))

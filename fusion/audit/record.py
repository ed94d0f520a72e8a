"""Record the calls of FlagGems' own benchmarks, at small shapes, running no kernel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fusion import formulas
from fusion.audit import proof
from fusion.audit.plan import Plan


def record(
    flaggems: Path,
    python: str,
    formula_file: Path,
    path: Path,
    operators: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Write the calls of operators, or of all, to a new file; return how many there are.

    ``python`` is an interpreter that has the ``audit`` extra. Raise AuditRefused when the file is
    there already, or when the interpreter lacks a package.
    """
    if path.exists():
        raise proof.AuditRefused(f"{path}: expected a file to make, found one; name another")
    proof.check_python(python)
    catalogue = formulas.load(formula_file)
    chosen = [catalogue.resolve(name) for name in operators] or list(catalogue.formulas.values())
    targets, _ = proof.find_targets(flaggems, chosen)
    with tempfile.TemporaryDirectory(prefix="fusion-record-") as folder:
        calls = Path(folder) / "calls.jsonl"
        plan = Plan(
            targets=tuple(targets),
            observations=Path(folder) / "observations.jsonl",
            formulas=None,
            shapes=proof.SHAPES,
            cases=1 << 30,
            recording=calls,
        )
        proof.run_all(flaggems, python, plan, Path(folder), tell, environ)
        lines = calls.read_bytes() if calls.exists() else b""
    path.write_bytes(lines)
    return lines.count(b"\n")

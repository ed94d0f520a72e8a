"""Prove formulas: run an operator's own benchmark inputs and compare what its kernel touches."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fusion import suite
from fusion.audit import observation
from fusion.audit.observation import Journal
from fusion.audit.plan import VARIABLE, Plan, Target
from fusion.audit.verdict import Finding, could_not_run, judge
from fusion.errors import Refusal
from fusion.formulas.catalogue import Catalogue, Formula

_HERE = Path(__file__).resolve().parent
SHAPES = _HERE / "shapes.yaml"
_NEEDED = ("torch", "triton", "numpy", "scipy", "yaml", "pytest", "sqlalchemy", "packaging")


class AuditRefused(Refusal):
    """Say why an audit cannot start."""


@dataclass(frozen=True)
class Limits:
    """Bound an audit: cases of a benchmark; seconds and bytes of inputs of a case."""

    cases: int = 5
    seconds: float = 60.0
    bytes_: int = 1 << 29


def prove(
    flaggems: Path,
    python: str,
    formula_file: Path,
    operators: Sequence[str] = (),
    limits: Limits = Limits(),
    tell: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> list[Finding]:
    """Audit operators, or all that are enabled, and return a finding for each case.

    ``flaggems`` is a checkout, ``python`` an interpreter that has the ``audit`` extra; the machine
    needs no accelerator. ``tell`` is called with a line for each process that runs. Raises
    :class:`AuditRefused`, and what the formula file's reading raises.
    """
    check_python(python)
    catalogue = Catalogue.load(formula_file)
    chosen = [catalogue.resolve(name) for name in operators] or [
        each for each in catalogue.formulas.values() if each.enabled
    ]
    targets, missing = find_targets(flaggems, chosen)
    with tempfile.TemporaryDirectory(prefix="fusion-audit-") as folder:
        plan = Plan(
            targets=tuple(targets),
            observations=Path(folder) / "observations.jsonl",
            formulas=formula_file.resolve(),
            shapes=SHAPES,
            cases=limits.cases,
            seconds=limits.seconds,
            bytes_=limits.bytes_,
        )
        found = run_all(flaggems, python, plan, Path(folder), tell, environ)
    explained = [_explained(each, catalogue) for each in (*found, *missing)]
    return _in_order(explained, [each.operator for each in chosen])


def check_python(python: str) -> None:
    """Refuse an interpreter that lacks what the audit's child imports."""
    code = f"import importlib.util as u; print(*[n for n in {_NEEDED!r} if u.find_spec(n) is None])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except OSError as error:
        raise AuditRefused(f"{python}: expected a Python for the audit, found {error}") from error
    absent = done.stdout.split()
    if done.returncode or absent:
        found = f"no {', '.join(absent)}" if absent else done.stderr.strip()[-200:]
        raise AuditRefused(
            f"{python}: expected the audit's packages, found {found}; "
            "install them by: pip install 'fusion-metrics[audit]'"
        )


def find_targets(flaggems: Path, chosen: Iterable[Formula]) -> tuple[list[Target], list[Finding]]:
    """Find each operator's benchmark; return the targets, and findings for those without one."""
    held = suite.scan(flaggems, embedded=False, version="")
    targets, missing = [], []
    for formula in chosen:
        benchmark = held.find(formula.names, formula.tests)
        if benchmark is None:
            missing.append(could_not_run(formula.operator, "it has no benchmark in this suite"))
            continue
        files = tuple(str((flaggems / file).resolve()) for file in benchmark.files)
        targets.append(Target(formula.operator, benchmark.marker, files, benchmark.tests))
    return targets, missing


def run_all(
    flaggems: Path,
    python: str,
    plan: Plan,
    folder: Path,
    tell: Callable[[str], None],
    environ: Mapping[str, str],
) -> list[Finding]:
    """Run children until every target had its turn: one that dies takes one operator with it."""
    found: list[Finding] = []
    remaining = plan.targets
    while remaining:
        tell(f"running {len(remaining)} operators in Triton's interpreter")
        plan.observations.unlink(missing_ok=True)
        ended = _run(flaggems, python, replace(plan, targets=remaining), folder, environ)
        journal = observation.read(plan.observations)
        found += findings(journal)
        if journal.running is None:
            found += _without_trace(remaining, journal, ended)
            break
        found.append(could_not_run(journal.running, f"its process died: {ended.how}"))
        names = [each.operator for each in remaining]
        remaining = remaining[names.index(journal.running) + 1 :]
    return found


@dataclass(frozen=True)
class _Ended:
    code: int
    output: str

    @property
    def how(self) -> str:
        if self.code < 0:
            return signal.Signals(-self.code).name
        return f"exit {self.code}, {self.last_line}"

    @property
    def last_line(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "no output"


def _run(
    flaggems: Path, python: str, plan: Plan, folder: Path, environ: Mapping[str, str]
) -> _Ended:
    plan.write(folder / "plan.json")
    done = subprocess.run(
        command(python, flaggems, plan),
        env=environment(environ, flaggems, folder),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return _Ended(done.returncode, done.stdout.decode(errors="replace"))


def command(python: str, flaggems: Path, plan: Plan) -> list[str]:
    """Return the child's command line."""
    files = dict.fromkeys(file for target in plan.targets for file in target.files)
    options = "-q -p fusion_audit_plugin -p no:cacheprovider -W ignore --level core"
    return [
        python,
        "-m",
        "pytest",
        *options.split(),
        "--continue-on-collection-errors",
        f"--rootdir={flaggems}",
        *files,
    ]


def environment(environ: Mapping[str, str], flaggems: Path, folder: Path) -> dict[str, str]:
    """Return the child's environment: the caller's, with the interpreter and caches of its own."""
    paths = [str(_HERE / "entry"), str(flaggems), str(flaggems / "src")]
    if environ.get("PYTHONPATH"):
        paths.append(environ["PYTHONPATH"])
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TRITON_INTERPRET": "1",
        "GEMS_VENDOR": "arm",
        "FLAGGEMS_CACHE_DIR": str(folder / "flaggems"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        VARIABLE: str(folder / "plan.json"),
    }


def findings(journal: Journal) -> list[Finding]:
    """Judge what a child observed, and tell of the tests that did not come to their end."""
    judged = [judge(each) for each in journal.observations]
    stopped = [
        could_not_run(each.operator, f"{each.outcome}: {each.message}")
        for each in journal.endings
        if each.outcome != "passed"
    ]
    return judged + stopped


def _without_trace(targets: Iterable[Target], journal: Journal, ended: _Ended) -> list[Finding]:
    """Tell of targets that left nothing: their file could not be collected, or no test ran."""
    told = {each.operator for each in journal.observations}
    told |= {each.operator for each in journal.endings}
    return [
        could_not_run(target.operator, _why(target, journal, ended))
        for target in targets
        if target.operator not in told
    ]


def _why(target: Target, journal: Journal, ended: _Ended) -> str:
    for file, message in journal.uncollected.items():
        if any(each.endswith(file) for each in target.files):
            return f"its benchmark cannot be imported: {message}"
    return f"no test of it ran: {ended.last_line}"


def _explained(finding: Finding, catalogue: Catalogue) -> Finding:
    explanation = catalogue.resolve(finding.operator).explanation
    return replace(finding, explanation=explanation) if explanation and finding.inexact else finding


def _in_order(found: Iterable[Finding], operators: list[str]) -> list[Finding]:
    return sorted(found, key=lambda each: operators.index(each.operator))

"""Find where things are: the benchmark suite, the formulas, the targets, the child's Python."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fusion.errors import Refusal

PACKAGE = Path(__file__).resolve().parent
EMBEDDED = PACKAGE / "embedded"
CHILD_MODULES = ("pytest", "yaml")


class WorkspaceError(Refusal):
    """Refuse a place where something was expected and is not."""


@dataclass(frozen=True)
class Workspace:
    """Name every place that a plan is made from.

    ``suite`` is the folder that holds ``benchmark/``; ``python`` runs the children.
    """

    suite: Path
    embedded: bool
    why: str
    python: str
    formulas: Path
    targets: Path


def locate(
    environ: Mapping[str, str],
    flaggems: str | None = None,
    python: str | None = None,
    targets: str | None = None,
) -> Workspace:
    """Find the places of a run from the environment and the options of the command line."""
    suite, why = suite_folder(environ, flaggems)
    return Workspace(
        suite=suite or EMBEDDED,
        embedded=suite is None,
        why=why,
        python=_python(python, environ),
        formulas=formula_file(environ),
        targets=_existing(targets, "--targets") if targets else data_file("targets.yaml"),
    )


def formula_file(environ: Mapping[str, str]) -> Path:
    """Return FlagGems' own formula file where there is one, else the project's."""
    base = environ.get("TRITON_REPO_DIR")
    if base:
        theirs = Path(base, "FlagGems", "benchmark", "fusion_metrics_formulas.yaml").absolute()
        if theirs.is_file():
            return theirs
    return data_file("fusion_metrics_formulas.yaml")


def data_file(name: str) -> Path:
    """Find a file of ``formulas/``: in the checkout, else as shipped inside the package."""
    for folder in (PACKAGE.parent / "formulas", PACKAGE / "data"):
        if (folder / name).is_file():
            return folder / name
    raise WorkspaceError(
        f"{name}: expected in {PACKAGE.parent / 'formulas'}; reinstall the project"
    )


def dotenv_file() -> Path:
    """Return where the project's ``.env`` is, or would be."""
    return PACKAGE.parent / ".env"


def suite_folder(environ: Mapping[str, str], flaggems: str | None) -> tuple[Path | None, str]:
    """Return the folder of FlagGems, None for the embedded suite, and why."""
    if flaggems:
        return _checkout(Path(flaggems), f"--flaggems {flaggems}"), "--flaggems"
    base = environ.get("TRITON_REPO_DIR")
    if not base:
        return None, "no FlagGems: neither --flaggems nor TRITON_REPO_DIR is given"
    if not Path(base).is_dir():
        raise WorkspaceError(
            f"TRITON_REPO_DIR: expected a folder, found {base}; correct it or unset it"
        )
    nested = Path(base, "FlagGems")
    if nested.is_dir():
        return _checkout(nested, f"TRITON_REPO_DIR/FlagGems ({nested})"), "TRITON_REPO_DIR"
    if _has_benchmarks(Path(base)):
        return Path(base).absolute(), "TRITON_REPO_DIR"
    return None, f"no FlagGems in TRITON_REPO_DIR ({base})"


def _checkout(path: Path, subject: str) -> Path:
    if _has_benchmarks(path):
        return path.absolute()
    found = "no benchmark/test_*.py in it" if path.is_dir() else "no such folder"
    raise WorkspaceError(
        f"{subject}: expected a FlagGems checkout with benchmark/test_*.py, found {found}; "
        "give the folder that holds benchmark/"
    )


def _has_benchmarks(path: Path) -> bool:
    return next((path / "benchmark").glob("test_*.py"), None) is not None


def _existing(text: str, option: str) -> Path:
    path = Path(text).absolute()
    if path.is_file():
        return path
    raise WorkspaceError(f"{option}: expected an existing file, found none at {path}")


def this_python() -> str:
    """Return the Python that runs the children when none is named."""
    return sys.executable


def _python(asked: str | None, environ: Mapping[str, str]) -> str:
    if not asked:
        missing = [name for name in CHILD_MODULES if importlib.util.find_spec(name) is None]
        _refuse_missing(sys.executable, missing)
        return sys.executable
    path = shutil.which(asked, path=environ.get("PATH"))
    if path is None:
        raise WorkspaceError(f"--python {asked}: expected a Python to run, found none")
    path = str(Path(path).absolute())
    _refuse_missing(path, _missing_modules(path, environ))
    return path


def _missing_modules(python: str, environ: Mapping[str, str]) -> list[str]:
    code = (
        "import importlib.util, sys\n"
        "print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])"
    )
    try:
        done = subprocess.run(
            [python, "-c", code, *CHILD_MODULES],
            capture_output=True,
            env=dict(environ),
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WorkspaceError(
            f"--python {python}: expected a working Python, found: {error}"
        ) from error
    return done.stdout.decode(errors="replace").split()


def _refuse_missing(python: str, missing: list[str]) -> None:
    if missing:
        packages = ["PyYAML" if name == "yaml" else name for name in missing]
        raise WorkspaceError(
            f"{python}: expected pytest and PyYAML for the children, found no "
            f"{' and no '.join(packages)}; run '{python} -m pip install {' '.join(packages)}' "
            "or name another with --python"
        )

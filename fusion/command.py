"""Build the command of a child, as data: what is run, where, and in which environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fusion import contract

PLUGIN_FOLDER = Path(__file__).resolve().parent / "child"
PLUGIN_NAME = "fusion_metrics_plugin"
PIPELINE_PREFIX, PIPELINE_SUFFIX = "TRITON_SHARED_FORCE_", "_PIPELINE"


@dataclass(frozen=True)
class Command:
    """Hold the arguments, the working directory and the changes to the caller's environment."""

    argv: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    unset: tuple[str, ...] = ()

    def applied(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the child's whole environment."""
        kept = {key: value for key, value in environ.items() if key not in self.unset}
        return {**kept, **self.environment}

    def shell(self) -> str:
        """Write the command so that it can be pasted into a POSIX shell."""
        folder = shlex.quote(self.folder)
        unset = [f"-u {shlex.quote(name)}" for name in self.unset]
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.environment.items()]
        words = ["env", *unset, *settings, shlex.join(self.argv)]
        return f"mkdir -p {folder} && cd {folder} && " + " \\\n    ".join(words)


def selection(
    root: Path, files: tuple[str, ...], marker: str | None, tests: tuple[str, ...] = ()
) -> list[str]:
    """Return the pytest arguments that select a benchmark's tests, with absolute paths."""
    paths = [str(root / file) for file in files]
    nodes = [f"{path}::{test}" for path in paths for test in tests] or paths
    return [*nodes, "-m", marker] if marker else nodes


def options(
    mode: str,
    level: str,
    warmup: int,
    iterations: int,
    dtype: str | None,
    shape_file: str | None,
) -> list[str]:
    """Return the suite's own options."""
    chosen = ["--mode", mode, "--level", level, "--warmup", str(warmup), "--iter", str(iterations)]
    chosen += ["--dtypes", dtype] if dtype else []
    chosen += ["--shape_file", shape_file] if shape_file else []
    return [*chosen, "--record", "log"]


def environment(
    environ: Mapping[str, str],
    *,
    pytest_arguments: list[str],
    omp_threads: int,
    pipeline: Mapping[str, str],
    caches: Path,
    formulas: str,
    operator: str,
    sources: tuple[str, ...],
) -> dict[str, str]:
    """Return what is set for a child.

    pytest's arguments travel in PYTEST_ADDOPTS, behind the caller's own, since the suite names its
    record after the command line and a file name is at most 255 bytes long. pytest captures
    nothing (``-s``), so that a crash leaves the output up to it.
    """
    ours = ["-s", "-p", PLUGIN_NAME, "-p", "no:cacheprovider", *pytest_arguments]
    addopts = [environ.get("PYTEST_ADDOPTS", ""), shlex.join(ours)]
    path = [str(PLUGIN_FOLDER), environ.get("PYTHONPATH", ""), *sources]
    return {
        "OMP_NUM_THREADS": str(omp_threads),
        **pipeline,
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "FLAGGEMS_CACHE_DIR": str(caches / "flaggems"),
        contract.CONFIG_VARIABLE: formulas,
        contract.KEY_VARIABLE: operator,
        "PYTHONPATH": ":".join(filter(None, path)),
        "PYTEST_ADDOPTS": " ".join(filter(None, addopts)),
    }


def other_pipelines(environ: Mapping[str, str], pipeline: Mapping[str, str]) -> tuple[str, ...]:
    """List the variables of the caller that would force another pipeline."""
    return tuple(
        sorted(
            name
            for name in environ
            if name.startswith(PIPELINE_PREFIX)
            and name.endswith(PIPELINE_SUFFIX)
            and name not in pipeline
        )
    )

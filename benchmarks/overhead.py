"""Show what `inv run` costs beside the bare pytest command of the same child.

Without --flaggems the embedded suite is measured, whose children last a second; the ratio that is
promised (1.05) is that of FlagGems, whose children load PyTorch and Triton.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratio import alternate

from fusion import session
from fusion.command import PLUGIN_NAME
from fusion.session import Options, Surroundings

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1.05


def main() -> None:
    """Measure one operator both ways, alternately."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flaggems")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--op", default="silu_and_mul")
    parser.add_argument("--shape-file")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = {"flaggems": given.flaggems, "python": given.python}
        texts = {"output_dir": folder, "shape_file": given.shape_file}
        around = Surroundings(dict(os.environ), Path.cwd(), ROOT / ".env")
        planned = session.prepare(Options(settings=texts, operators=(given.op,), **places), around)
        command = planned.first_command(planned.jobs[0], around.environ)
        environment = command.applied(around.environ)
        environment["PYTEST_ADDOPTS"] = without_plugin(environment["PYTEST_ADDOPTS"])
        environment.pop("FLAGGEMS_FUSION_METRICS_CONFIG")
        environment.pop("FLAGGEMS_FUSION_METRICS_KEY")
        ours = [
            sys.executable,
            "-m",
            "invoke",
            "--search-root",
            str(ROOT),
            "run",
            "--ops",
            given.op,
        ]
        for name, value in {**places, **texts}.items():
            ours += [f"--{name.replace('_', '-')}", value] if value else []
        ratio = alternate(
            lambda: subprocess.run(ours, check=False, capture_output=True),
            lambda: bare(command.argv, environment, Path(tempfile.mkdtemp(dir=folder))),
            given.pairs,
        )
    suite = "FlagGems" if given.flaggems else "the embedded suite (not the one that is promised)"
    print(ratio.line(f"inv run over bare pytest on {suite}", LIMIT))


def bare(argv: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    """Run the child's command alone, with caches as fresh as those of a run."""
    caches = {name: str(folder / name) for name in ("TRITON_CACHE_DIR", "FLAGGEMS_CACHE_DIR")}
    subprocess.run(
        argv, capture_output=True, env={**environment, **caches}, cwd=folder, check=False
    )


def without_plugin(addopts: str) -> str:
    """Drop the plugin from pytest's arguments."""
    words = shlex.split(addopts)
    at = words.index(PLUGIN_NAME)
    return shlex.join(words[: at - 1] + words[at + 1 :])


if __name__ == "__main__":
    main()

"""Show what a report page costs, as a whole command: seconds and memory of 10,000 rows, and growth.

The results are real rows of a run's columns with made-up numbers: two tables, 80 operators, a
manifest. The ratio is the time per row of 100,000 rows over that of 10,000, imports taken off both.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ratio import seconds

from fusion import report, results, targets, workspace
from fusion.files import json_text

LIMIT_SECONDS, LIMIT_MB, LINEAR = 5.0, 300.0, 1.2
FEW, MANY, LEAST = 10_000, 100_000, 100
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Time the three sizes in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folders = {size: made(Path(name) / str(size), size) for size in (LEAST, FEW)}
        taken = {size: timed(folder, given.rounds) for size, folder in folders.items()}
        # The largest of all children so far: the many rows come after it was read.
        megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        taken[MANY] = timed(made(Path(name) / str(MANY), MANY), 1)
    print(f"{FEW} rows: {taken[FEW]:.2f} s, limit {LIMIT_SECONDS:g} s")
    print(f"{FEW} rows: {megabytes:.0f} MB at most, limit {LIMIT_MB:g} MB")
    per_row = (taken[MANY] - taken[LEAST]) / (taken[FEW] - taken[LEAST]) * FEW / MANY
    print(f"time per row, {MANY} rows over {FEW}: {per_row:.2f}, limit {LINEAR:g}")


def timed(folder: Path, rounds: int) -> float:
    """Return the median seconds of `inv report` on a folder of results."""
    command = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "report", str(folder)]
    to = ["--to", str(folder / "report")]

    def once() -> None:
        subprocess.run([*command, *to], check=True, stdout=subprocess.DEVNULL)

    return statistics.median(seconds(once) for _ in range(rounds))


def made(folder: Path, size: int) -> Path:
    """Write report files of that many rows."""
    folder.mkdir()
    chance = random.Random(size)
    for table, (category, columns) in results.TABLES.items():
        lines = [line(chance, index, category) for index in range(size // 2)]
        kept = [{column: cells.get(column, "") for column in columns} for cells in lines]
        (folder / table).write_text(report.table(columns, kept))
    (folder / "coverage.csv").write_text(report.table(report.COVERAGE_COLUMNS, ()))
    (folder / "run.json").write_text(json_text(manifest()))
    return folder


def line(chance: random.Random, index: int, category: str) -> dict[str, object]:
    """Make one row below its target."""
    share = chance.uniform(0.01, 0.9)
    size = 10 ** chance.uniform(3, 10)
    rates = (
        {"achieved_tflops": share * 2.5, "intensity_flop_per_byte": 10 ** chance.uniform(0, 3)}
        if category == "compute"
        else {"achieved_gbps": share * 30.72, "logical_bytes": round(size)}
    )
    return {
        "operator": f"operator_{index % 80}",
        "shape": f"[[{index},{index % 7 + 1}],[{index}]]",
        "dtype": "float32",
        "pipeline": "SVE",
        "latency_ms": chance.lognormvariate(0, 2),
        "attainment_pct": 100 * share,
        "count": 5,
        "note": "unstable: spread of 12 % over 5 repeats" if index % 10 == 0 else "",
        **rates,
    }


def manifest() -> dict[str, object]:
    """Make a manifest with the project's targets and nothing of a machine."""
    declared = targets.load(workspace.data_file("targets.yaml"))
    fields = ("created", "suite", "suite_root", "suite_revision", "python", "formulas")
    return {
        **dict.fromkeys((*fields, "formulas_sha256", "time_unit", "pinning"), "made up"),
        "format": report.MANIFEST_FORMAT,
        "runs": {"made-up": {}},
        "targets": vars(declared)
        | {"pipelines": {k: vars(v) for k, v in declared.pipelines.items()}},
        "machine": {},
        "settings": {},
        "bindings": [],
        "pinned": False,
        "omp_threads": 1,
    }


if __name__ == "__main__":
    main()

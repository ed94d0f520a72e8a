"""Show what comparing two sets of results costs, at 10,000 and at 100,000 rows of 5 repeats.

Two CSV files of each set are read, and every row is judged. The seconds are those of `inv compare`
as a whole command; the time per row is that of all forms without the imports, which would hide a
cost that grows faster than the rows.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ratio import alternate, seconds

from fusion import lookup, report, results
from fusion.comparison import verdict, writing

LIMIT, LINEAR = 2.0, 1.2
REPEATS = 5
SIZES = (10_000, 100_000)
ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("count", "latency_mad_ms", "spread_pct", "latencies_ms")


def main() -> None:
    """Time both sizes, alternately."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        few, many = (make_pair(Path(folder) / str(size), size) for size in SIZES)
        alone = [seconds(lambda: whole_command(few)) for _ in range(given.rounds)]
        grown = alternate(lambda: every_form(*many), lambda: every_form(*few), given.rounds)
    print(f"{SIZES[0]} rows: {statistics.median(alone):.2f} s, limit {LIMIT:g} s")
    per_row = grown.median * SIZES[0] / SIZES[1]
    print(f"time per row, {SIZES[1]} rows over {SIZES[0]}: {per_row:.2f}, limit {LINEAR:g}")


def whole_command(pair: tuple[Path, Path]) -> None:
    """Compare two folders as a person does."""
    command = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), "compare"]
    subprocess.run([*command, *map(str, pair)], check=True, stdout=subprocess.DEVNULL)


def every_form(a: Path, b: Path) -> None:
    """Read two folders, compare them and write the result in each form."""
    found = verdict.compare(*lookup.pair((str(a), str(b)), a.parent))
    for form in writing.FORMATS:
        writing.written(found, form)


def make_pair(folder: Path, size: int) -> tuple[Path, Path]:
    """Write two sets: equal up to noise of 2 %, but every fifth row of B is slow."""
    chance = random.Random(size)
    sides = folder / "a", folder / "b"
    for changed, side in enumerate(sides):
        side.mkdir(parents=True)
        for table, (_, columns) in results.TABLES.items():
            lines = [line(chance, index, bool(changed)) for index in range(size // 2)]
            heads = dict.fromkeys((*columns, *COLUMNS))
            kept = [{name: cells.get(name, 1) for name in heads} for cells in lines]
            (side / table).write_text(report.table(heads, kept))
    return sides


def line(chance: random.Random, index: int, changed: bool) -> dict[str, object]:
    """Make one row of five repeats."""
    level = (0.01 + index % 97) * (1.5 if changed and index % 5 == 0 else 1)
    latencies = [level * chance.lognormvariate(0, 0.02) for _ in range(REPEATS)]
    median = statistics.median(latencies)
    return {
        "operator": f"operator_{index % 40}",
        "dtype": ("float16", "float32", "bfloat16")[index % 3],
        "shape": f"[[{index},{index % 7 + 1}],[{index}]]",
        "latency_ms": median,
        "latency_mad_ms": statistics.median(abs(value - median) for value in latencies),
        "latencies_ms": json.dumps(latencies),
        "count": REPEATS,
        "note": "",
    }


if __name__ == "__main__":
    main()

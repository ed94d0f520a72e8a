"""Show that the plugin leaves the latencies of the embedded suite as they are.

Children with and without it run alternately; for each case the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from overhead import without_plugin

from fusion import session
from fusion.session import Options, Surroundings

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure some operators both ways and print the geometric mean of the cases' ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="silu_and_mul,geglu,skip_layer_norm")
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args()
    around = Surroundings(dict(os.environ), Path.cwd(), ROOT / ".env")
    latencies: dict[tuple[str, bool], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        options = Options({"output_dir": folder}, tuple(given.ops.split(",")))
        planned = session.prepare(options, around)
        for number in range(given.pairs):
            for job in planned.jobs:
                for attached in (True, False):
                    command = planned.first_command(job, around.environ)
                    environment = command.applied(around.environ)
                    if not attached:
                        addopts = without_plugin(environment["PYTEST_ADDOPTS"])
                        environment["PYTEST_ADDOPTS"] = addopts
                    place = Path(folder) / f"{job.operator}-{number}-{attached}"
                    place.mkdir()
                    subprocess.run(
                        command.argv, cwd=place, env=environment, capture_output=True, check=True
                    )
                    for case, latency in measured(place):
                        latencies[case, attached].append(latency)
    report(latencies)


def measured(place: Path) -> list[tuple[str, float]]:
    """Read a child's own record: each case's name and latency in ms."""
    (path,) = place.glob("result_*.log")
    found = []
    for line in path.read_text().splitlines():
        if '"op_name"' in line:
            record = json.loads(line.partition(" ")[2])
            for index, result in enumerate(record["result"]):
                found.append((f"{record['op_name']}-{index}", result["latency"]))
    return found


def report(latencies: dict[tuple[str, bool], list[float]]) -> None:
    """Print the ratio of medians per case, and their geometric mean with its interval."""
    cases = sorted({case for case, _ in latencies})
    for case in cases:
        print(f"{case}: {ratio(latencies, case):.3f}")
    means = []
    chance = random.Random(1)
    for _ in range(2000):
        resampled = {
            key: chance.choices(values, k=len(values)) for key, values in latencies.items()
        }
        means.append(geometric_mean([ratio(resampled, case) for case in cases]))
    means.sort()
    mean = geometric_mean([ratio(latencies, case) for case in cases])
    low, high = means[50], means[-51]
    print(f"with the plugin over without it: {mean:.3f} (95 % interval {low:.3f} to {high:.3f})")


def ratio(latencies: dict[tuple[str, bool], list[float]], case: str) -> float:
    """Return a case's median latency with the plugin over that without it."""
    return statistics.median(latencies[case, True]) / statistics.median(latencies[case, False])


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


if __name__ == "__main__":
    main()

"""Show what evaluating a formula costs, on recorded calls; the limit is 100 microseconds a case."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from fusion.formulas import recorded
from fusion.formulas.catalogue import Catalogue, FormulaError

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 100.0


def main() -> None:
    """Time every formula on every call of a file, beside writing the call's shapes as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=ROOT / "tests" / "resources" / "cases.jsonl", type=Path)
    parser.add_argument("--repeats", type=int, default=21)
    given = parser.parse_args()
    catalogue = Catalogue.load(ROOT / "formulas" / "fusion_metrics_formulas.yaml")
    ours, theirs = [], []
    for call in recorded.load(given.cases):
        formula = catalogue.find(call.op)
        shapes = [getattr(item, "shape", item) for item in call.args]
        try:
            formula and formula.value(call.args, call.kwargs)
        except FormulaError:
            continue
        if formula is not None:
            ours.append(
                microseconds(lambda f=formula, c=call: f.value(c.args, c.kwargs), given.repeats)
            )
            theirs.append(microseconds(lambda s=shapes: json.dumps(s, default=str), given.repeats))
    ours.sort()
    median, high = statistics.median(ours), ours[int(0.95 * len(ours))]
    print(
        f"{len(ours)} cases: median {median:.1f} us (limit {LIMIT:g}), "
        f"95th percentile {high:.1f} us"
    )
    print(f"over writing the call's shapes as JSON: {median / statistics.median(theirs):.2f}")


def microseconds(act, repeats: int) -> float:
    """Return the median microseconds of a call."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


if __name__ == "__main__":
    main()

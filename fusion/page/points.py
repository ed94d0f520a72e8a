"""Place results on a roofline: points, ceilings and ridge points, and attainments by operator.

Intensity is in FLOP/byte, performance in TFLOPS (10^12 FLOP/s), bandwidth in GB/s (10^9 byte/s).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from fusion import ceilings, targets
from fusion.results import TABLES, Cells, Results
from fusion.targets import Targets

# Memory operators count bytes and no FLOP, so their intensity is not known. They stand in this
# range of intensities, ordered by their bytes, at bandwidth x intensity: as far below the slanted
# ceiling as their bandwidth is below the target.
MEMORY_BAND = (1 / 128, 1 / 4)
_GIGA_IN_TERA = 1e-3


@dataclass(frozen=True)
class Point:
    """Place one row; ``index`` is its place among the rows of the results.

    x is the intensity, y the performance; None where the row has no such number.
    """

    index: int
    category: str
    x: float | None
    y: float | None


@dataclass(frozen=True)
class Roof:
    """Hold one ceiling, flat from its ridge point on; ``kind`` is target, peak or measured."""

    kind: str
    label: str
    tflops: float
    gbps: float

    @property
    def ridge(self) -> float:
        """Return the intensity at which both ceilings meet."""
        return self.tflops / (self.gbps * _GIGA_IN_TERA)

    def height(self, intensity: float) -> float:
        """Return the TFLOPS that are attainable at an intensity."""
        return min(self.tflops, self.gbps * _GIGA_IN_TERA * intensity)


@dataclass(frozen=True)
class Attainment:
    """Sum up an operator's shapes: median, worst and best percentage of the target.

    ``ceiling_pct`` is the median percentage of the measured ceiling, None where there is none.
    """

    operator: str
    category: str
    middle: float
    worst: float
    best: float
    shapes: int
    ceiling_pct: float | None


def points(results: Results) -> list[Point]:
    """Place every row, in the order of the results."""
    sizes = [number(cells, "logical_bytes") for cells in results.rows.values()]
    known = [math.log(size) for size in sizes if size]
    least, most = min(known, default=0.0), max(known, default=0.0)
    return [
        _point(index, TABLES[key[0]][0], cells, (least, most))
        for index, (key, cells) in enumerate(results.rows.items())
    ]


def roofs(results: Results) -> list[Roof]:
    """List the ceilings that the targets declare, and those measured with the run's threads."""
    declared = results.manifest.get("targets")
    if not declared:
        return []
    read = targets.from_json(declared)
    return [*_declared(read), *_measured(read, results.manifest)]


def attainments(results: Results) -> list[Attainment]:
    """Sum up each operator that has a percentage, the worst first."""
    rows: dict[tuple[str, str], list[Cells]] = {}
    for key, cells in results.rows.items():
        if number(cells, "attainment_pct") is not None:
            rows.setdefault((cells["operator"], TABLES[key[0]][0]), []).append(cells)
    found = [_attainment(*name, lines) for name, lines in rows.items()]
    return sorted(found, key=lambda each: each.middle)


def number(cells: Mapping[str, str], column: str) -> float | None:
    """Read a cell as a positive finite number, None where it is none."""
    try:
        value = float(cells.get(column) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _point(index: int, category: str, cells: Cells, sizes: tuple[float, float]) -> Point:
    if category == "compute":
        x = number(cells, "intensity_flop_per_byte")
        return Point(index, category, x, number(cells, "achieved_tflops"))
    size, rate = number(cells, "logical_bytes"), number(cells, "achieved_gbps")
    if size is None or rate is None:
        return Point(index, category, None, None)
    x = _within_band(math.log(size), *sizes)
    return Point(index, category, x, rate * _GIGA_IN_TERA * x)


def _within_band(value: float, least: float, most: float) -> float:
    share = (value - least) / (most - least) if most > least else 0.5
    low, high = map(math.log, MEMORY_BAND)
    return math.exp(low + share * (high - low))


def _declared(read: Targets) -> Iterable[Roof]:
    for name, pipeline in read.pipelines.items():
        gbps = read.gbps(name)
        for dtype in pipeline.tflops:
            tflops = read.tflops(name, dtype)
            if gbps and tflops:
                yield Roof("target", f"{name} {dtype}", tflops, gbps)
        for dtype, peak in pipeline.peak_tflops.items():
            if pipeline.peak_gbps:
                yield Roof("peak", f"{name} {dtype}", peak, pipeline.peak_gbps)


def _measured(read: Targets, manifest: Mapping[str, Any]) -> Iterable[Roof]:
    """Yield the ceilings that the rows meet: those of the run's nodes and threads."""
    threads, measured = manifest.get("omp_threads"), read.measured
    if measured is None or threads is None:
        return
    met = [measured.find(node, threads) for node in ceilings.nodes(manifest)]
    for ceiling in filter(None, met):
        place = "" if ceiling.numa_node is None else f" node {ceiling.numa_node}"
        gbps = ceiling.rate("memory", None)
        for dtype, tflops in ceiling.tflops.items():
            if gbps:
                yield Roof("measured", f"{dtype}{place}", tflops, gbps)


def _attainment(operator: str, category: str, lines: list[Cells]) -> Attainment:
    found = [value for cells in lines if (value := number(cells, "attainment_pct")) is not None]
    known = [value for cells in lines if (value := number(cells, "ceiling_pct")) is not None]
    return Attainment(
        operator,
        category,
        median(found),
        min(found),
        max(found),
        len(found),
        median(known) if known else None,
    )

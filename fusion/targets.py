"""Hold what a pipeline is asked to reach: TFLOPS per dtype, and GB/s.

The roofline's two ceilings. A compute target is ``peak * efficiency / cores * threads`` of the
targets file; a memory target is the file's bandwidth as it stands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fusion import ceilings, cpulist, yamlfile
from fusion.ceilings import KERNELS, Ceiling, Measured
from fusion.cpulist import CpuListError
from fusion.errors import Refusal

VERSION = 1
_TOP_KEYS = {"version", "scale", "memory", "defaults", "pipelines", "measured"}
_PIPELINE_KEYS = {"environment", "peak_tflops", "gbps", "peak_gbps"}
_SCALE_KEYS = ("efficiency", "cores", "threads")
_MEASURED_TEXTS = ("when", "host", "cpu_model", "kernel", "python", "library")
_CEILING_KEYS = {
    "numa_node",
    "cpus",
    "threads",
    "array_bytes",
    "gbps",
    "tflops",
    "unsupported",
    "median_gbps",
    "median_tflops",
    "doubts",
}


class TargetsError(Refusal):
    """Refuse a targets file, an unknown pipeline, or a pair that has no target."""


@dataclass(frozen=True)
class Pipeline:
    """Describe one way through the compiler.

    ``tflops`` maps a dtype to its target in TFLOPS, ``gbps`` is the target in GB/s; the peaks are
    what the hardware can do at all, for the same share of the machine (None: not declared).
    """

    name: str
    environment: Mapping[str, str]
    tflops: Mapping[str, float]
    gbps: float | None
    peak_tflops: Mapping[str, float] = field(default_factory=dict)
    peak_gbps: float | None = None


@dataclass(frozen=True)
class Targets:
    """Answer which pipeline a category takes and what it is asked to reach.

    ``measured`` are the machine's own ceilings, None where nobody has measured them.
    """

    path: str
    sha256: str
    pipelines: Mapping[str, Pipeline]
    defaults: Mapping[str, str]
    override_tflops: float | None = None
    override_gbps: float | None = None
    measured: Measured | None = None

    def pipeline(self, category: str, asked: str | None = None) -> str:
        """Choose the pipeline of a category; raise TargetsError for an unknown name."""
        name = asked or self.defaults[category]
        if name not in self.pipelines:
            raise TargetsError(
                f"--pipeline {name}: expected a pipeline of {self.path}, which declares "
                + ", ".join(self.pipelines)
            )
        return name

    def tflops(self, pipeline: str, dtype: str | None) -> float | None:
        """Return the compute target in TFLOPS, None when the pair has none."""
        if self.override_tflops is not None:
            return self.override_tflops
        return self.pipelines[pipeline].tflops.get(dtype or "")

    def gbps(self, pipeline: str) -> float | None:
        """Return the memory target in GB/s, None when the pipeline has none."""
        if self.override_gbps is not None:
            return self.override_gbps
        return self.pipelines[pipeline].gbps

    def target(self, category: str, pipeline: str, dtype: str | None) -> float | None:
        """Return the target of a category: TFLOPS for compute, GB/s for memory."""
        return self.tflops(pipeline, dtype) if category == "compute" else self.gbps(pipeline)

    def peak(self, category: str, pipeline: str, dtype: str | None) -> float | None:
        """Return what the hardware can do at all, in the unit of the category's target."""
        declared = self.pipelines[pipeline]
        if category == "compute":
            return declared.peak_tflops.get(dtype or "")
        return declared.peak_gbps

    def ceiling(
        self, category: str, dtype: str | None, numa_node: int | None, threads: int
    ) -> float | None:
        """Return what was measured on a node with that many threads, in the target's unit."""
        found = self.measured.find(numa_node, threads) if self.measured else None
        return found.rate(category, dtype) if found else None

    def overridden(self, tflops: float | None, gbps: float | None) -> Targets:
        """Apply the overrides of the settings uniformly to every pipeline and dtype."""
        return replace(self, override_tflops=tflops, override_gbps=gbps)

    def require(self, category: str, pipeline: str, dtype: str, operator: str) -> float:
        """Return the target, or refuse a pair without one before anything runs."""
        target = self.target(category, pipeline, dtype)
        if target is not None:
            return target
        option = "--target-tflops" if category == "compute" else "--target-gbps"
        raise TargetsError(
            f"{operator}: expected a target for pipeline {pipeline} and dtype {dtype}, found none "
            f"in {self.path}; pairs with a compute target: {self._pairs()}; "
            f"choose one of them with --pipeline and --dtypes, or give {option}"
        )

    def _pairs(self) -> str:
        return ", ".join(
            f"{name} {dtype}"
            for name, declared in self.pipelines.items()
            for dtype in declared.tflops
        )


def load(path: Path) -> Targets:
    """Read a targets file; raise TargetsError naming the file and the entry that is wrong."""
    read = yamlfile.load(path)
    reader = _Reader(str(path))
    data = reader.mapping(read.data, "the file", _TOP_KEYS)
    if data.get("version") != VERSION:
        reader.refuse("version", str(VERSION), data.get("version"))
    scale = reader.scale(data.get("scale"))
    memory = reader.mapping(data.get("memory", {}), "memory", {"gbps", "peak_gbps"})
    declared = reader.mapping(data.get("pipelines"), "pipelines")
    pipelines = {
        str(name): reader.pipeline(str(name), entry, scale, memory)
        for name, entry in declared.items()
    }
    return Targets(
        str(path),
        read.sha256,
        pipelines,
        reader.defaults(data, pipelines),
        measured=reader.measured(data.get("measured")),
    )


def from_json(data: Mapping[str, Any]) -> Targets:
    """Read targets back from the plain values of a saved plan."""
    pipelines = {name: Pipeline(**declared) for name, declared in data["pipelines"].items()}
    measured = ceilings.from_json(data.get("measured"))
    return Targets(**{**data, "pipelines": pipelines, "measured": measured})


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path

    def refuse(self, entry: str, expected: str, found: object) -> None:
        raise TargetsError(f"{self._path}: {entry}: expected {expected}, found {found!r}")

    def mapping(self, value: Any, entry: str, known: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(entry, "a mapping", value)
        if known is not None and (unknown := [key for key in value if key not in known]):
            self.refuse(entry, "only " + ", ".join(sorted(known)), unknown[0])
        return dict(value)

    def number(self, value: Any, entry: str) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            self.refuse(entry, "a positive number", value)
        return float(value)

    def optional(self, entries: Mapping[str, Any], key: str, entry: str) -> float | None:
        return self.number(entries[key], f"{entry}.{key}") if key in entries else None

    def scale(self, value: Any) -> tuple[float, float]:
        """Return (share of the machine, efficiency); a file without a scale has 1 and 1."""
        if value is None:
            return 1.0, 1.0
        entries = self.mapping(value, "scale", set(_SCALE_KEYS))
        efficiency, cores, threads = (
            self.number(entries.get(key), f"scale.{key}") for key in _SCALE_KEYS
        )
        return threads / cores, efficiency

    def pipeline(
        self, name: str, value: Any, scale: tuple[float, float], memory: Mapping[str, Any]
    ) -> Pipeline:
        entry = f"pipelines.{name}"
        entries = self.mapping(value, entry, _PIPELINE_KEYS)
        bandwidth = {**memory, **entries}
        peaks = self.mapping(entries.get("peak_tflops", {}), f"{entry}.peak_tflops")
        share, efficiency = scale
        share_of_peak = {
            str(dtype): self.number(peak, f"{entry}.peak_tflops.{dtype}") * share
            for dtype, peak in peaks.items()
        }
        environment = self.mapping(entries.get("environment", {}), f"{entry}.environment")
        return Pipeline(
            name=name,
            environment={str(key): str(text) for key, text in environment.items()},
            tflops={dtype: peak * efficiency for dtype, peak in share_of_peak.items()},
            gbps=self.optional(bandwidth, "gbps", entry),
            peak_tflops=share_of_peak,
            peak_gbps=self.optional(bandwidth, "peak_gbps", entry),
        )

    def measured(self, value: Any) -> Measured | None:
        if value is None:
            return None
        entries = self.mapping(value, "measured", {*_MEASURED_TEXTS, "ceilings"})
        texts = {key: self.text(entries.get(key), f"measured.{key}") for key in _MEASURED_TEXTS}
        found = entries.get("ceilings")
        if not isinstance(found, list) or not found:
            self.refuse("measured.ceilings", "a list of at least one binding", found)
        read = tuple(
            self.ceiling(each, f"measured.ceilings[{index}]")
            for index, each in enumerate(found or ())
        )
        placements = Counter((each.numa_node, each.threads) for each in read)
        if twice := [placement for placement, count in placements.items() if count > 1]:
            node, threads = twice[0]
            self.refuse(
                "measured.ceilings",
                "each node and number of threads once",
                f"node {node} with {threads} threads twice",
            )
        return Measured(**texts, ceilings=read)

    def ceiling(self, value: Any, entry: str) -> Ceiling:
        entries = self.mapping(value, entry, _CEILING_KEYS)
        gbps = self.rates(entries.get("gbps"), f"{entry}.gbps")
        if set(gbps) != set(KERNELS):
            self.refuse(f"{entry}.gbps", "exactly " + ", ".join(KERNELS), sorted(gbps))
        unsupported = self.mapping(entries.get("unsupported", {}), f"{entry}.unsupported")
        node = entries.get("numa_node")
        return Ceiling(
            numa_node=None if node is None else self.whole(node, f"{entry}.numa_node", 0),
            cpus=self.cpus(entries.get("cpus"), f"{entry}.cpus"),
            threads=self.whole(entries.get("threads"), f"{entry}.threads", 1),
            array_bytes=self.whole(entries.get("array_bytes"), f"{entry}.array_bytes", 1),
            gbps=gbps,
            tflops=self.rates(entries.get("tflops", {}), f"{entry}.tflops"),
            unsupported={str(dtype): str(why) for dtype, why in unsupported.items()},
            median_gbps=self.rates(entries.get("median_gbps", {}), f"{entry}.median_gbps"),
            median_tflops=self.rates(entries.get("median_tflops", {}), f"{entry}.median_tflops"),
            doubts=self.texts(entries.get("doubts", []), f"{entry}.doubts"),
        )

    def rates(self, value: Any, entry: str) -> dict[str, float]:
        found = self.mapping(value, entry)
        return {str(name): self.number(rate, f"{entry}.{name}") for name, rate in found.items()}

    def text(self, value: Any, entry: str) -> str:
        if not isinstance(value, str) or not value:
            self.refuse(entry, "a text (in quotes where it looks like a number or a date)", value)
        return str(value)

    def texts(self, value: Any, entry: str) -> tuple[str, ...]:
        if not isinstance(value, list):
            self.refuse(entry, "a list of texts", value)
        return tuple(self.text(each, f"{entry}[{index}]") for index, each in enumerate(value))

    def cpus(self, value: Any, entry: str) -> str:
        try:
            numbers = cpulist.parse(self.text(value, entry))
        except CpuListError:
            numbers = ()
        if not numbers:
            self.refuse(entry, "a list of CPUs such as '0-31'", value)
        return str(value)

    def whole(self, value: Any, entry: str, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.refuse(entry, f"a whole number of at least {least}", value)
        return int(value)

    def defaults(
        self, data: Mapping[str, Any], pipelines: Mapping[str, Pipeline]
    ) -> dict[str, str]:
        if not pipelines:
            self.refuse("pipelines", "at least one pipeline", {})
        first = next(iter(pipelines))
        given = self.mapping(data.get("defaults", {}), "defaults", {"compute", "memory"})
        chosen = {key: str(given.get(key, first)) for key in ("compute", "memory")}
        for key, name in chosen.items():
            if name not in pipelines:
                self.refuse(f"defaults.{key}", "one of " + ", ".join(pipelines), name)
        return chosen

"""Hold what a machine was measured to do at all: STREAM's rates and a matrix product per dtype."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KERNELS = ("copy", "scale", "add", "triad")


@dataclass(frozen=True)
class Ceiling:
    """Hold the rates of one binding: GB/s by STREAM kernel, TFLOPS by dtype, each the best seen.

    ``numa_node`` is None where children are not pinned. ``unsupported`` says by dtype why there is
    no rate. The medians, empty in older files, say how steady a rate was; ``doubts`` are what
    spoke against the measurement when it was made.
    """

    numa_node: int | None
    cpus: str
    threads: int
    array_bytes: int
    gbps: Mapping[str, float]
    tflops: Mapping[str, float]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    median_gbps: Mapping[str, float] = field(default_factory=dict)
    median_tflops: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    def rate(self, category: str, dtype: str | None) -> float | None:
        """Return the best kernel's GB/s, or the TFLOPS of a dtype's matrix product."""
        if category == "memory":
            return max(self.gbps.values(), default=None)
        return self.tflops.get(dtype or "")


@dataclass(frozen=True)
class Measured:
    """Hold a calibration: when, where and with what it was done, and what each binding reached."""

    when: str
    host: str
    cpu_model: str
    kernel: str
    python: str
    library: str
    ceilings: tuple[Ceiling, ...]

    def find(self, numa_node: int | None, threads: int) -> Ceiling | None:
        """Return the ceiling of a node with that many threads, None where it was not measured.

        Children that are not pinned (no node) meet the lowest of the ceilings.
        """
        fitting = [each for each in self.ceilings if each.threads == threads]
        if numa_node is not None:
            return next((each for each in fitting if each.numa_node == numa_node), None)
        return min(fitting, key=lambda each: each.rate("memory", None) or 0.0, default=None)

    def obstacle(
        self, cpu_model: str | None, threads: int, nodes: Collection[int | None]
    ) -> str | None:
        """Say why no ceiling is that of a run on this machine; None when one is.

        ``nodes`` are those of the run, None for children that are not pinned.
        """
        if cpu_model != self.cpu_model:
            return f"measured on {self.cpu_model}, this machine is {cpu_model}"
        if not any(each.threads == threads for each in self.ceilings):
            counts = ", ".join(dict.fromkeys(str(each.threads) for each in self.ceilings))
            return f"measured with {counts} threads, this run has {threads}"
        if nodes and not any(self.find(node, threads) for node in nodes):
            places = _places(each.numa_node for each in self.ceilings if each.threads == threads)
            return f"measured {places}, this run is {_places(nodes)}"
        return None

    def warnings(
        self, host: str | None, threads: int, nodes: Collection[int | None]
    ) -> Sequence[str]:
        """Say what speaks against the ceilings of a run: another host, gaps, doubts of then."""
        used = {node: self.find(node, threads) for node in nodes}
        missing = [node for node, found in used.items() if found is None]
        told = [f"measured on host {self.host}, this is {host}"] if host != self.host else []
        if missing:
            told.append(f"none was measured {_places(missing)}")
        if (loose := used.get(None)) and loose.numa_node is not None:
            told.append(f"measured {_places([loose.numa_node])}, this run is without pinning")
        doubted = {each.numa_node: each for each in used.values() if each is not None}
        told += [
            f"doubt {_places([node])}: {doubt}"
            for node, each in doubted.items()
            for doubt in each.doubts
        ]
        return told


def nodes(manifest: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return the nodes of a run from its manifest, None for children that are not pinned."""
    if not manifest.get("pinned"):
        return (None,)
    return tuple(dict.fromkeys(each["node"] for each in manifest.get("bindings", ())))


def _places(nodes: Iterable[int | None]) -> str:
    known = [str(node) for node in dict.fromkeys(nodes) if node is not None]
    plural = "s" if len(known) > 1 else ""
    return f"on node{plural} {', '.join(known)}" if known else "without pinning"


def from_json(data: Mapping[str, Any] | None) -> Measured | None:
    """Read a calibration back from plain values."""
    if data is None:
        return None
    read = (
        Ceiling(**{**each, "doubts": tuple(each.get("doubts", ()))}) for each in data["ceilings"]
    )
    return Measured(**{**data, "ceilings": tuple(read)})


def table(measured: Measured) -> tuple[Sequence[str], list[list[str]]]:
    """Give the rates as headers and lines of text, GB/s and TFLOPS."""
    dtypes = list(dict.fromkeys(dtype for each in measured.ceilings for dtype in each.tflops))
    headers = ["node", "CPUs", "threads", *(f"{kernel} GB/s" for kernel in KERNELS)]
    lines = [
        [
            "-" if each.numa_node is None else str(each.numa_node),
            each.cpus,
            str(each.threads),
            *(f"{each.gbps[kernel]:.4g}" for kernel in KERNELS),
            *(f"{each.tflops[dtype]:.4g}" if dtype in each.tflops else "-" for dtype in dtypes),
        ]
        for each in measured.ceilings
    ]
    return [*headers, *(f"{dtype} TFLOPS" for dtype in dtypes)], lines

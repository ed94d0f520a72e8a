"""Write the command that measures the operator of a row again, under the row's own conditions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from fusion.results import Cells
from fusion.settings import DTYPES


def command(cells: Cells, manifest: Mapping[str, Any]) -> str:
    """Return an ``inv run`` command; what the row and the manifest do not tell is left out."""
    words = ["inv", "run", "--ops", cells["operator"]]
    for column, option in _FROM_ROW.items():
        if value := cells.get(column):
            words += [option, value]
    if cells.get("dtype") in DTYPES:
        words += ["--dtypes", cells["dtype"]]
    return shlex.join([*words, *_from_manifest(manifest)])


_FROM_ROW = {
    "pipeline": "--pipeline",
    "mode": "--mode",
    "level": "--level",
    "warmup": "--warmup",
    "iter": "--iter",
    "omp_threads": "--omp-threads",
    "numa_node": "--numa-nodes",
}
_SETTINGS = {
    "shape_file": "--shape-file",
    "target_tflops": "--target-tflops",
    "target_gbps": "--target-gbps",
}


def _from_manifest(manifest: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    if manifest and not manifest.get("embedded"):
        words += ["--flaggems", manifest["suite_root"], "--python", manifest["python"]]
    settings = manifest.get("settings", {})
    for name, option in _SETTINGS.items():
        entry = settings.get(name, {})
        if entry.get("value") is not None and entry.get("source") != "targets file":
            words += [option, str(entry["value"])]
    if path := manifest.get("targets", {}).get("path"):
        words += ["--targets", path]
    if manifest.get("repeat", 1) > 1:
        words += ["--repeat", str(manifest["repeat"])]
    return words

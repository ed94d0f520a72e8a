"""Decide how many threads the suite uses. Imports nothing that loads NumPy."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

MAXIMUM = 32
BLAS_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def count() -> int:
    """Return OMP_NUM_THREADS, or the CPUs that this process may use, at most 32."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return min(MAXIMUM, len(own_cpus()))


def own_cpus() -> list[int]:
    """List the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def hold_blas(environment: MutableMapping[str, str]) -> None:
    """Give BLAS one thread, where the user has not decided.

    Blocks that run side by side then do not oversubscribe the CPUs. The baseline loses little: its
    matrix products are many and small, and threads that wait for each other at every one of them
    make its latency depend on whatever else runs.
    """
    for variable in BLAS_VARIABLES:
        environment.setdefault(variable, "1")

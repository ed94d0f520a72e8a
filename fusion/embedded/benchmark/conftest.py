"""Take the options of a benchmark run and write its record."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import consts, threads

threads.hold_blas(os.environ)

_LONGEST_NAME = 255
_logger = logging.getLogger("fusion_embedded_benchmark")
_logger.propagate = False


@dataclass
class BenchConfig:
    """Hold the options of this run; times in milliseconds."""

    mode: consts.BenchMode
    bench_level: consts.BenchLevel
    warm_up: int
    repetition: int
    user_desired_dtypes: list[str] | None
    shape_file: str | None
    record_log: bool


Config: BenchConfig | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add = parser.addoption
    modes = [mode.value for mode in consts.BenchMode]
    levels = [level.value for level in consts.BenchLevel]
    add("--mode", default="kernel", choices=modes, help="kernel: median call; others: mean call")
    add("--level", default="comprehensive", choices=levels, help="core: the fewest cases")
    add("--warmup", type=int, default=consts.DEFAULT_WARMUP_TIME, help="warm-up time in ms")
    add("--iter", type=int, default=consts.DEFAULT_ITER_TIME, help="measuring time in ms")
    add(
        "--dtypes",
        action="append",
        choices=consts.REQUESTABLE_DTYPES,
        help="a dtype to measure; may be repeated (default: all that the operator has)",
    )
    add("--shape_file", help="YAML file: operator or class name -> shapes (default: built in)")
    add("--record", default="none", choices=["none", "log"], help="log: write result_<args>.log")


def pytest_configure(config: pytest.Config) -> None:
    """Read the options and open the record."""
    global Config
    option = config.getoption
    for name in ("--warmup", "--iter"):
        if option(name) < 0:
            raise pytest.UsageError(f"{name} is a time in ms, at least 0, not {option(name)}")
    Config = BenchConfig(
        mode=consts.BenchMode(option("--mode")),
        bench_level=consts.BenchLevel(option("--level")),
        warm_up=option("--warmup"),
        repetition=option("--iter"),
        user_desired_dtypes=option("--dtypes"),
        shape_file=option("--shape_file"),
        record_log=option("--record") == "log",
    )
    if Config.record_log:
        _open_record(Path(record_name(config.invocation_params.args)))


def pytest_unconfigure() -> None:
    """Close the record."""
    _close_record()


def record_name(arguments: tuple[str, ...]) -> str:
    """Name the record after the command line, cut to what a file system takes."""
    words = [a.replace(".py", "").replace("=", "_").replace("/", "_") for a in arguments]
    stem = f"result_{'_'.join(words)}".replace("_-", "-").encode()[: _LONGEST_NAME - len(".log")]
    return stem.decode(errors="ignore") + ".log"


def emit_record_logger(message: str) -> None:
    """Append a line to the record, if one is kept."""
    if Config is not None and Config.record_log:
        _logger.info(message)


def _open_record(path: Path) -> None:
    _close_record()
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
    _logger.addHandler(handler)
    _logger.setLevel(logging.INFO)
    emit_record_logger("Benchmark record logger enabled")


def _close_record() -> None:
    for handler in list(_logger.handlers):
        _logger.removeHandler(handler)
        handler.close()

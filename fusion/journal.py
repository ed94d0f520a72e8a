"""Keep a run's folder: every path, durable writes, and what is already done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion.contract import CASE_FILE
from fusion.files import FileError, write_json

RUNS, PLAN, MANIFEST, OUTCOME, RESUMED = (
    "runs",
    "plan.json",
    "run.json",
    "outcome.json",
    "resumed.json",
)
COMPUTE_TABLE = "fused_compute_tflops.csv"
MEMORY_TABLE = "fused_non_compute_bandwidth.csv"
COVERAGE_TABLE = "coverage.csv"
REPORT_FILES = (COMPUTE_TABLE, MEMORY_TABLE, COVERAGE_TABLE, MANIFEST)


@dataclass(frozen=True)
class Attempt:
    """Name the files of one pytest child."""

    folder: Path

    @property
    def output(self) -> Path:
        """Return where the child's output is kept, as the bytes it wrote."""
        return self.folder / "stdout.txt"

    @property
    def cases(self) -> Path:
        """Return the plugin's case file."""
        return self.folder / CASE_FILE

    @property
    def record(self) -> Path:
        """Return the suite's own record log."""
        return self.folder / "record.log"

    @property
    def command(self) -> Path:
        """Return the file that says what was run, and how it ended."""
        return self.folder / "command.json"

    def adopt_record(self) -> None:
        """Rename the record that the suite named after its command line."""
        written = sorted(self.folder.glob("result_*.log"), key=lambda path: path.stat().st_size)
        if written:
            written[-1].replace(self.record)


@dataclass(frozen=True)
class Journal:
    """Name the files of the run that ``folder`` holds, wherever that folder lies."""

    folder: Path

    @property
    def caches(self) -> Path:
        """Return where the run's children keep compiled kernels."""
        return self.folder / "cache"

    @property
    def lock(self) -> Path:
        """Return the file that is locked while a runner works on this run."""
        return self.folder / "run.lock"

    @property
    def junit(self) -> Path:
        """Return the coverage as JUnit XML, which CI systems display."""
        return self.folder / "coverage.xml"

    @property
    def resumed(self) -> Path:
        """Return the file that says when the run was resumed, and what differed then."""
        return self.folder / RESUMED

    @property
    def plan(self) -> Path:
        """Return the file that is written first."""
        return self.folder / PLAN

    def operator(self, operator: str, repeat: int = 0) -> Path:
        """Return the folder of an operator's first measurement, or of a repeat of it."""
        folder = self.folder / "ops" / operator
        return folder / f"repeat-{repeat}" if repeat else folder

    def attempt(self, operator: str, index: int, repeat: int = 0) -> Attempt:
        """Return the files of one attempt."""
        return Attempt(self.operator(operator, repeat) / f"attempt-{index}")

    def outcome(self, operator: str, repeat: int = 0) -> Path:
        """Return the file whose existence means that this repeat of the operator is done."""
        return self.operator(operator, repeat) / OUTCOME

    def is_done(self, operator: str, repeat: int = 0) -> bool:
        """Tell whether a repeat of an operator needs no further attempt."""
        return self.outcome(operator, repeat).is_file()


def of(output: Path, run_id: str) -> Journal:
    """Return the run of an output folder."""
    return Journal(output / RUNS / run_id)


def create(journal: Journal, plan: Mapping[str, Any]) -> Journal:
    """Make a run's folder and write its plan; raise FileError when that cannot be done."""
    try:
        journal.folder.mkdir(parents=True, exist_ok=False)
        write_json(journal.plan, plan)
    except OSError as error:
        raise FileError(
            f"{journal.folder}: expected a folder that can be written, found: {error}; "
            "choose another with --output-dir"
        ) from error
    return journal

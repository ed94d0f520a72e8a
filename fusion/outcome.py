"""Judge an attempt by its cases and tests, and an operator by its attempts."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fusion import files
from fusion.records import Records

# History of outcome.json's format, newest last:
# 1  first.
# 2  repeat; the machine's state before and after; CPU seconds of an attempt.
OUTCOME_FORMAT = 2
STATUSES = (
    "PASSED",
    "PARTIAL",
    "FAILED",
    "SKIPPED",
    "TIMEOUT",
    "CRASHED",
    "NO_DATA",
    "DISABLED",
    "MISSING",
    "NOT_RUN",
)
# What `all` lists without counting it as a failure: nothing could run.
BENIGN = ("PASSED", "SKIPPED", "DISABLED", "MISSING")
RESULTS = ("PASSED", "PARTIAL")
# What another try would not change.
SETTLED = ("PASSED", "SKIPPED", "DISABLED", "MISSING", "NOT_RUN")
_DTYPE_REFUSED = "can't be supported by this op"
_MISSING_PACKAGE = re.compile(r"ModuleNotFoundError|ImportError|No module named")
_EXITS = {
    1: "tests failed",
    2: "pytest was interrupted",
    3: "pytest met an internal error",
    4: "pytest refused its arguments",
    5: "no test was collected",
}


@dataclass(frozen=True)
class Ending:
    """Say how a child ended: its return code (negative: a signal), whether its time was up.

    ``cpu_seconds`` are those of the child and of all that it waited for.
    """

    returncode: int
    timed_out: bool
    seconds: float
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Judge one attempt."""

    status: str
    reason: str
    measured: int
    errors: int
    is_dtype_failure: bool


@dataclass(frozen=True)
class Tried:
    """Keep one attempt of an operator; dtype None means that the benchmark chose."""

    index: int
    dtype: str | None
    returncode: int
    seconds: float
    status: str
    reason: str
    measured: int
    errors: int
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class Outcome:
    """Keep the end of one operator; ``counts`` is the index of the attempt that gives rows.

    ``repeat`` counts from 0; ``before`` and ``after`` are the machine's state around it.
    """

    format: int
    operator: str
    status: str
    reason: str
    counts: int
    attempts: tuple[Tried, ...]
    started: str
    ended: str
    repeat: int = 0
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None

    @property
    def counting(self) -> Tried:
        """Return the attempt that gives rows."""
        return next(tried for tried in self.attempts if tried.index == self.counts)


def judge(records: Records, ending: Ending, last_output: str = "") -> Verdict:
    """Give an attempt its status; the exit code is asked only where pytest left nothing."""
    problems = _problems(records)
    measured = len(records.measured)
    status, reason = _status(records, ending, problems, last_output)
    return Verdict(
        status=status,
        reason=reason,
        measured=measured,
        errors=sum(case.problem is not None for case in records.cases),
        is_dtype_failure=status in ("FAILED", "CRASHED") and not _MISSING_PACKAGE.search(reason),
    )


def conclude(
    operator: str,
    attempts: Sequence[Tried],
    started: str,
    ended: str,
    earlier: Sequence[Tried] = (),
    repeat: int = 0,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> Outcome:
    """Choose the attempt that counts: one that passed, else the fullest partial, else the first.

    ``attempts`` are the newest; ``earlier`` ones count again where the new ones did no better.
    """
    counting = max(attempts, key=_worth)
    if earlier and max(map(_worth, earlier)) > _worth(counting):
        counting = max(earlier, key=_worth)
    return Outcome(
        format=OUTCOME_FORMAT,
        operator=operator,
        status=counting.status,
        reason=_combined(attempts, counting),
        counts=counting.index,
        attempts=(*earlier, *attempts),
        started=started,
        ended=ended,
        repeat=repeat,
        before=before,
        after=after,
    )


def _worth(tried: Tried) -> tuple[bool, int]:
    has_results = tried.status in RESULTS
    return tried.status == "PASSED", tried.measured if has_results else 0


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Give an outcome as plain JSON values."""
    return asdict(outcome)


def from_json(data: Mapping[str, Any]) -> Outcome:
    """Read an outcome back; raise FileError for a format that this version does not know."""
    files.check_format(data, OUTCOME_FORMAT, f"outcome of {data.get('operator')}")
    return Outcome(**{**data, "attempts": tuple(Tried(**tried) for tried in data["attempts"])})


def signal_name(number: int) -> str:
    """Name a signal, as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _status(
    records: Records, ending: Ending, problems: list[str], last_output: str
) -> tuple[str, str]:
    measured = bool(records.measured)
    if ending.timed_out:
        reason = f"timed out after {ending.seconds:.0f} s{_where(records)}"
        return ("PARTIAL" if measured else "TIMEOUT"), reason
    if ending.returncode < 0:
        reason = f"killed by {signal_name(-ending.returncode)}{_where(records)}"
        return ("PARTIAL" if measured else "CRASHED"), reason
    if problems:
        return ("PARTIAL" if measured else "FAILED"), _listed(problems)
    if measured:
        return ("PASSED", "") if _finished(records) else ("PARTIAL", _cut_short(records, ending))
    told = [test for test in records.tests if test.phase != "teardown"]
    if told and all(test.outcome == "skipped" for test in told):
        return "SKIPPED", _listed([test.message.removeprefix("Skipped: ") for test in told])
    if any(test.outcome in ("passed", "xpassed") for test in told):
        return "NO_DATA", "the tests passed and recorded no case"
    return "NO_DATA", _nothing(ending, last_output)


def _finished(records: Records) -> bool:
    return records.ended or records.source == "record.log"


def _cut_short(records: Records, ending: Ending) -> str:
    return f"the child ended with exit code {ending.returncode} before pytest did{_where(records)}"


def _where(records: Records) -> str:
    if records.running is not None:
        return f" while running {records.running.describe()}"
    if records.cases:
        return f" after case {records.cases[-1].number}"
    return " before the first case"


def _problems(records: Records) -> list[str]:
    cases = [
        f"{case.describe()}: {case.problem}" for case in records.cases if case.problem is not None
    ]
    told = {case.error for case in records.cases}
    failed = [
        test.message.strip() or f"{test.node} failed without a message"
        for test in records.tests
        if test.outcome == "failed"
        and test.phase != "teardown"
        and not (records.measured and _DTYPE_REFUSED in test.message)
        and test.message.removeprefix("Failed: ") not in told
    ]
    expected = [
        "expected to fail: " + test.message.removeprefix("reason: ")
        for test in records.tests
        if test.outcome == "xfailed"
    ]
    return [*records.uncollected, *expected, *cases, *failed]


def _listed(problems: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(problem for problem in problems if problem))
    more = f" (and {len(distinct) - 1} more)" if len(distinct) > 1 else ""
    return (distinct[0] if distinct else "") + more


def _nothing(ending: Ending, last_output: str) -> str:
    meaning = _EXITS.get(ending.returncode, f"exit code {ending.returncode}")
    return f"{meaning}: {last_output}" if last_output else meaning


def _combined(attempts: Sequence[Tried], counting: Tried) -> str:
    if counting.status in RESULTS or len(attempts) == 1:
        return counting.reason
    return "; ".join(
        f"with {tried.dtype or 'the benchmark own dtypes'}: {tried.reason}" for tried in attempts
    )

"""Declare the options that the tasks share, and read what the command line gave for them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion.session import Options
from fusion.settings import FIELDS


@dataclass(frozen=True)
class Option:
    """Declare an option by the name of its parameter; a list may be given more than once."""

    name: str
    help: str
    default: Any = None


SETTINGS = tuple(
    Option(field.name, field.help, [] if field.name == "dtypes" else None) for field in FIELDS
)
PLACES = (
    Option("flaggems", "FlagGems checkout; else TRITON_REPO_DIR, else the embedded suite"),
    Option("python", "Python that runs the children; else this one"),
    Option("targets", "targets file; else the project's own"),
)
RUN = (
    *SETTINGS,
    *PLACES,
    Option("pipeline", "pipeline of every operator, one that the targets file declares"),
    Option("repeat", "independent children that measure each operator, interleaved; 1"),
    Option("dry_run", "print the plan and its exact commands; start and write nothing", False),
)
OPERATORS = Option("ops", "operators, as a,b; may be given more than once", [])
RUN_NAME = Option("run", "a run: its id, or the path of its folder", [])
OUTPUT = next(option for option in SETTINGS if option.name == "output_dir")
DRY_RUN = next(option for option in RUN if option.name == "dry_run")
NO_WAIT = Option("no_wait", "refuse instead of waiting where another run measures", False)
FAILED_TOO = Option(
    "failed", "also run again what did not pass, keeping the earlier attempts", False
)
FORCE = Option("force", "go on although something changed, and record what", False)
DOCTOR = PLACES[:2]
CALIBRATE = (
    Option("output", "targets file to write; else targets-HOST.yaml in the output folder"),
    Option("force", "overwrite the file", False),
    *(
        option
        for option in RUN
        if option.name in ("numa_nodes", "omp_threads", "jobs", "output_dir", "python", "targets")
    ),
)
TO = Option("to", "folder to write to; else 'report' beside the results")
FORMAT = Option("format", "how to write it: text, md, json, csv; for show also junit", "text")
THRESHOLD = Option("threshold", "the smallest change that counts, as 5% (the default)", "5%")
FAIL_ON = Option(
    "fail_on",
    "exit with 1 on any of: slower, faster, missing (A measured it, B did not), untold; as a,b",
    [],
)
EVERYTHING = Option(
    "all", "show also the rows that are the same, and operators that neither side could run", False
)
AUDIT = (
    Option("cases", "evaluate the formulas on the recorded calls of this file"),
    Option("record", "write the calls of FlagGems' benchmarks to this new file, running no kernel"),
    Option("against", "compare the formulas with another FlagGems checkout, from its text"),
    Option("document", "write docs/formulas.md and docs/verdicts.json from a whole audit", False),
    Option("detail", "show every case and its tensors", False),
    *PLACES[:2],
)
_WORD = "word_"


def helps(options: Iterable[Option]) -> dict[str, str]:
    """Return the help of options by parameter name, as invoke takes it."""
    return {option.name: option.help for option in options}


def lists(options: Iterable[Option]) -> list[str]:
    """Name the options that may be given more than once, as invoke takes it."""
    return [option.name for option in options if option.default == []]


def bare_words(argv: Sequence[str], task: str, options: Iterable[Option]) -> int:
    """Count the words behind a task's name that are neither options nor their values."""
    if task not in argv:
        return 0
    switches = {
        f"--{option.name.replace('_', '-')}" for option in options if option.default is False
    }
    count, is_value = 0, False
    for word in argv[list(argv).index(task) + 1 :]:
        is_option = word.startswith("-") and not is_value
        count += not is_option and not is_value
        is_value = is_option and "=" not in word and word not in switches and word != "--help"
    return count


def without_value(argv: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Name the options given without a value among those that may be given more than once.

    invoke complains of the others, and takes these for not given.
    """
    several = {f"--{name.replace('_', '-')}" for name in lists(options)}
    followers = [*argv[1:], "--"]
    return [
        word
        for word, follower in zip(argv, followers)
        if word in several and follower.startswith("--")
    ]


def positionals(words: int) -> list[str]:
    """Name the parameters that take bare words."""
    return [f"{_WORD}{number}" for number in range(words)]


def words(given: Mapping[str, Any]) -> list[str]:
    """Return the bare words that a task was given, in order."""
    return [str(value) for name, value in given.items() if name.startswith(_WORD)]


def taking(
    options: Iterable[Option], words: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a task the options as parameters; its body gets them as one mapping.

    ``words`` is how many bare words the task takes. invoke knows positional parameters that must
    all be given, so a task that takes any number declares as many as the command line has.

    invoke reads a task's options from its signature, which is made here from the declarations, so
    that an option is declared once for every task that has it.
    """
    parameters = [
        inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
        for option in options
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in positionals(words)
    ]

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        def with_options(context: Any, **given: Any) -> Any:
            return body(context, given)

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        with_options.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
        return with_options

    return decorate


def read(given: Mapping[str, Any]) -> Options:
    """Sort what the command line gave into settings, operators and places."""
    texts = {
        option.name: _joined(given.get(option.name)) for option in SETTINGS if option.name in given
    }
    places = {option.name: given.get(option.name) for option in PLACES}
    return Options(
        settings=texts,
        operators=names(given.get("ops") or []),
        pipeline=given.get("pipeline"),
        repeat=given.get("repeat"),
        **places,
    )


def names(given: Iterable[str]) -> tuple[str, ...]:
    """Split names at commas, in order, each once."""
    split = (name.strip() for text in given for name in text.split(","))
    return tuple(dict.fromkeys(name for name in split if name))


def _joined(value: Any) -> str | None:
    if isinstance(value, list):
        return ",".join(value) if value else None
    return None if value is None else str(value)

"""Declare the options that the tasks share, and read what the command line gave for them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
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
    Option("dry_run", "print the plan and its exact commands; start and write nothing", False),
)
OPERATORS = Option("ops", "operators, as a,b; may be given more than once", [])


def helps(options: Iterable[Option]) -> dict[str, str]:
    """Return the help of options by parameter name, as invoke takes it."""
    return {option.name: option.help for option in options}


def lists(options: Iterable[Option]) -> list[str]:
    """Name the options that may be given more than once, as invoke takes it."""
    return [option.name for option in options if option.default == []]


def taking(options: Iterable[Option]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a task the options as parameters; its body gets them as one mapping.

    invoke reads a task's options from its signature, which is made here from the declarations, so
    that an option is declared once for every task that has it.
    """
    parameters = [
        inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
        for option in options
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

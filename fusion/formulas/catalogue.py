"""Load the formulas, resolve an operator's names, and bind a benchmark's arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, NoReturn, Sequence

from fusion import yamlfile
from fusion.errors import Refusal
from fusion.formulas.expression import Expression, ExpressionError, parse
from fusion.formulas.tensors import EvaluationError
from fusion.text import nearest

VERSION = 1
METRICS = {"memory": "logical_bytes", "compute": "logical_flops"}
DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "bool",
    "complex64",
)
REQUIRED = object()
_ENTRY_KEYS = {
    "category",
    "metric",
    "inputs",
    "expression",
    "enabled",
    "exclude_reason",
    "aliases",
    "dtype",
    "source",
    "reference",
    "tests",
    "explanation",
}
_INPUT_KEYS = {"position", "keyword", "default"}


class FormulaError(Refusal):
    """Refuse a formula file, naming file, operator and entry, or a call that cannot be counted."""


class UnknownOperator(FormulaError):
    """Refuse a name that is neither an operator nor an alias."""


@dataclass(frozen=True)
class Input:
    """Say where a benchmark's call holds an argument; REQUIRED as default: it must be there."""

    name: str
    position: int | None
    keyword: str | None
    default: Any = REQUIRED

    def pick(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the argument: by keyword where given, else by position, else the default."""
        if self.keyword is not None and self.keyword in kwargs:
            return kwargs[self.keyword]
        if self.position is not None and self.position < len(args):
            return args[self.position]
        return self.default

    def place(self) -> str:
        """Say where the argument is looked for."""
        places = [] if self.position is None else [f"position {self.position}"]
        return " or ".join(places + ([f"keyword {self.keyword!r}"] if self.keyword else []))


@dataclass(frozen=True)
class Formula:
    """Count the work of one operator: FLOP (``logical_flops``) or bytes (``logical_bytes``).

    ``aliases`` are the operator's other names: marker, name in the record, file stem, older names.
    ``tests`` names the test functions that are its own where a marker covers several operators.
    """

    operator: str
    category: str
    metric: str
    inputs: tuple[Input, ...]
    expression: Expression
    enabled: bool = True
    exclude_reason: str | None = None
    aliases: tuple[str, ...] = ()
    dtype: str | None = None
    source: str | None = None
    reference: str | None = None
    tests: tuple[str, ...] = ()
    explanation: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """List the operator and its aliases."""
        return (self.operator, *self.aliases)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name the arguments of a benchmark's call; raise FormulaError for one that is missing."""
        bound = {item.name: item.pick(args, kwargs) for item in self.inputs}
        for item in self.inputs:
            if bound[item.name] is REQUIRED:
                raise FormulaError(
                    f"{self.operator}: expected input {item.name!r} at {item.place()}, found "
                    f"{len(args)} positional arguments and keywords {sorted(kwargs) or 'none'}"
                )
        return bound

    def value(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
        """Return the exact count for a benchmark's call; raise FormulaError where there is none."""
        try:
            return self.expression.evaluate(self.bind(args, kwargs))
        except EvaluationError as error:
            raise FormulaError(f"{self.operator}: {error}") from error


@dataclass(frozen=True)
class Catalogue:
    """Hold the formulas of a file, in its order, with the SHA-256 of the bytes they come from."""

    path: Path
    sha256: str
    formulas: Mapping[str, Formula]
    _by_name: Mapping[str, Formula] = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> Catalogue:
        """Read a formula file and check all of it; raise FormulaError or DocumentError."""
        read = yamlfile.load(Path(path))
        reader = _Reader(str(path))
        entries = reader.entries(read.data)
        formulas = {name: reader.formula(name, entry) for name, entry in entries.items()}
        return cls(Path(path), read.sha256, formulas, reader.by_name(formulas))

    def find(self, name: str) -> Formula | None:
        """Return the formula of an operator or alias, None where there is none."""
        return self._by_name.get(name)

    def resolve(self, name: str) -> Formula:
        """Return the formula of an operator or alias; UnknownOperator tells the nearest name."""
        found = self.find(name)
        if found is None:
            raise UnknownOperator(
                f"{name}: expected an operator of {self.path}, found none of that name"
                f"{nearest(name, self._by_name)}; 'inv list' shows them"
            )
        return found


class _Reader:
    """Check entries, saying of each error the file, the operator and the key."""

    def __init__(self, path: str) -> None:
        self._path = path

    def refuse(self, subject: str, complaint: str) -> NoReturn:
        raise FormulaError(f"{self._path}: {subject}: {complaint}")

    def expect(self, holds: bool, subject: str, expected: str, found: Any) -> None:
        if not holds:
            self.refuse(subject, f"expected {expected}, found {found!r}")

    def known(self, keys: Any, allowed: Any, subject: str) -> None:
        for key in keys:
            if key not in allowed:
                self.refuse(
                    subject,
                    f"unknown key {key!r}{nearest(str(key), allowed)}; "
                    f"known are {', '.join(sorted(allowed))}",
                )

    def entries(self, data: Any) -> Mapping[str, Any]:
        self.expect(isinstance(data, dict), "the file", "a mapping with version and formulas", data)
        self.known(data, {"version", "formulas"}, "the file")
        version = data.get("version")
        self.expect(version == VERSION and version is not True, "version", str(VERSION), version)
        entries = data.get("formulas")
        self.expect(
            isinstance(entries, dict) and bool(entries),
            "formulas",
            "a mapping of operators to formulas",
            entries,
        )
        for name in entries:
            self.expect(
                isinstance(name, str) and name.isidentifier(),
                "formulas",
                "an operator's name",
                name,
            )
        return dict(entries)

    def formula(self, name: str, entry: Any) -> Formula:
        self.expect(isinstance(entry, dict), name, "a mapping", entry)
        self.known(entry, _ENTRY_KEYS, name)
        category, metric = self.category(name, entry)
        inputs = self.inputs(name, entry.get("inputs"))
        enabled = entry.get("enabled", True)
        self.expect(isinstance(enabled, bool), f"{name}.enabled", "true or false", enabled)
        reason = self.text(name, entry, "exclude_reason")
        if not enabled and not reason:
            self.refuse(name, "expected an exclude_reason, as the formula is disabled, found none")
        dtype = self.text(name, entry, "dtype")
        self.expect(dtype is None or dtype in DTYPES, f"{name}.dtype", " or ".join(DTYPES), dtype)
        return Formula(
            operator=name,
            category=category,
            metric=metric,
            inputs=inputs,
            expression=self.expression(name, entry.get("expression"), inputs),
            enabled=enabled,
            exclude_reason=reason,
            aliases=self.name_list(name, entry, "aliases"),
            dtype=dtype,
            source=self.text(name, entry, "source"),
            reference=self.text(name, entry, "reference"),
            tests=self.name_list(name, entry, "tests"),
            explanation=self.text(name, entry, "explanation"),
        )

    def category(self, name: str, entry: Mapping[str, Any]) -> tuple[str, str]:
        category, metric = entry.get("category"), entry.get("metric")
        if not isinstance(category, str) or category not in METRICS:
            self.refuse(f"{name}.category", f"expected {' or '.join(METRICS)}, found {category!r}")
        if metric != METRICS[category]:
            self.refuse(
                f"{name}.metric",
                f"expected exactly one metric, {METRICS[category]} for category {category}, "
                f"found {metric!r}",
            )
        return category, METRICS[category]

    def inputs(self, name: str, entries: Any) -> tuple[Input, ...]:
        subject = f"{name}.inputs"
        self.expect(isinstance(entries, dict), subject, "a mapping of names to places", entries)
        return tuple(self.input(subject, key, place) for key, place in entries.items())

    def input(self, subject: str, name: Any, place: Any) -> Input:
        valid = isinstance(name, str) and name.isidentifier()
        self.expect(valid, subject, "an argument's name", name)
        subject = f"{subject}.{name}"
        self.expect(isinstance(place, dict), subject, "a mapping with position or keyword", place)
        self.known(place, _INPUT_KEYS, subject)
        position, keyword = place.get("position"), place.get("keyword")
        is_position = isinstance(position, int) and not isinstance(position, bool) and position >= 0
        self.expect(position is None or is_position, f"{subject}.position", "0 or more", position)
        is_text = isinstance(keyword, str) and bool(keyword)
        self.expect(keyword is None or is_text, f"{subject}.keyword", "a keyword's name", keyword)
        if position is None and keyword is None and "default" not in place:
            self.refuse(subject, "expected a position, a keyword or a default, found none of them")
        return Input(name, position, keyword, place.get("default", REQUIRED))

    def expression(self, name: str, text: Any, inputs: tuple[Input, ...]) -> Expression:
        subject = f"{name}.expression"
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        self.expect(isinstance(text, str) and bool(text), subject, "an expression's text", text)
        flat = " ".join(text.split())
        try:
            return parse(flat, [item.name for item in inputs])
        except ExpressionError as error:
            raise FormulaError(f"{self._path}: {subject}: {error}") from error

    def text(self, name: str, entry: Mapping[str, Any], key: str) -> str | None:
        value = entry.get(key)
        self.expect(value is None or isinstance(value, str), f"{name}.{key}", "a text", value)
        return " ".join(value.split()) if isinstance(value, str) else None

    def name_list(self, name: str, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = entry.get(key) or []
        valid = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        self.expect(valid, f"{name}.{key}", "a list of names", value)
        return tuple(value)

    def by_name(self, formulas: Mapping[str, Formula]) -> Mapping[str, Formula]:
        known: dict[str, Formula] = dict(formulas)
        for formula in formulas.values():
            for alias in formula.aliases:
                if alias in known:
                    self.refuse(
                        f"{formula.operator}.aliases",
                        f"{alias!r} already names {known[alias].operator}; remove one of the two",
                    )
                known[alias] = formula
        return known

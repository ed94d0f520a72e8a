"""Resolve the settings of a run, and remember where each value came from."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fusion.errors import Refusal
from fusion.numa import MAX_OMP_THREADS, parse_nodes

MODES = ("kernel", "operator", "wrapper", "cudagraph")
LEVELS = ("core", "comprehensive")
DTYPES = ("float16", "float32", "bfloat16", "int16", "int32", "bool", "complex64")


class SettingsError(Refusal):
    """Refuse a setting, naming where it was given."""


@dataclass(frozen=True)
class Settings:
    """Hold one effective value per field; None leaves it to the plan or the targets file."""

    warmup: int
    iter: int
    mode: str
    level: str
    dtypes: str | None
    jobs: int | None
    omp_threads: int | None
    numa_nodes: tuple[int, ...] | None
    target_tflops: float | None
    target_gbps: float | None
    timeout: float
    shape_file: Path | None
    output_dir: Path
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Field:
    """Declare a setting: how its text is read, its default and what it means.

    ``parse`` raises ValueError with what it expected.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    help: str

    @property
    def key(self) -> str:
        """Name the variable of the environment and of ``.env``."""
        return f"FUSION_{self.name.upper()}"

    @property
    def option(self) -> str:
        """Name the option of the command line."""
        return "--" + self.name.replace("_", "-")


def _count(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    bounds = f"from {minimum} to {maximum}" if maximum else f"of at least {minimum}"

    def parse(text: str) -> int:
        if re.fullmatch(r"\d{1,9}", text) and minimum <= int(text) <= (maximum or math.inf):
            return int(text)
        raise ValueError(f"a whole number {bounds}")

    return parse


def _positive(unit: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number > 0:
            return number
        raise ValueError(f"a positive number of {unit}")

    return parse


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text in names:
            return text
        raise ValueError("one of " + ", ".join(names))

    return parse


def _dtype(text: str) -> str:
    if text in DTYPES:
        return text
    raise ValueError("exactly one dtype of " + ", ".join(DTYPES))


def _absolute(text: str) -> Path:
    path = Path(text)
    if path.is_absolute():
        return path
    raise ValueError("an absolute path")


def _shape_file(text: str) -> Path:
    path = _absolute(text)
    if path.is_file():
        return path
    raise ValueError("an existing shape file (YAML, as FlagGems' core_shapes.yaml)")


FIELDS = (
    Field("warmup", _count(0), 5, "warm-up before a measurement, in the suite's own unit"),
    Field("iter", _count(1), 5, "measured repetitions, in the suite's own unit"),
    Field("mode", _choice(*MODES), "kernel", "how a latency is taken: " + ", ".join(MODES)),
    Field("level", _choice(*LEVELS), "core", "which shapes run: " + ", ".join(LEVELS)),
    Field("dtypes", _dtype, None, "one dtype for every operator; unset: each operator's own"),
    Field("jobs", _count(1), None, "children at a time; unset: one per NUMA node"),
    Field(
        "omp_threads",
        _count(1, MAX_OMP_THREADS),
        None,
        f"threads of a child, at most {MAX_OMP_THREADS}; unset: as many as the smallest node has",
    ),
    Field("numa_nodes", parse_nodes, None, "NUMA nodes to pin to, as 0,1; unset: all, best effort"),
    Field("target_tflops", _positive("TFLOPS"), None, "compute target that replaces all others"),
    Field("target_gbps", _positive("GB/s"), None, "memory target; unset: targets.yaml, 30.72"),
    Field("timeout", _positive("seconds"), 18000.0, "seconds that one child may take"),
    Field("shape_file", _shape_file, None, "YAML file of shapes handed to the benchmarks"),
    Field("output_dir", _absolute, None, "where runs and the published tables are kept"),
)
_BY_KEY = {field.key: field for field in FIELDS}


def resolve(
    options: Mapping[str, str | None],
    environ: Mapping[str, str],
    dotenv: Path,
    folder: Path,
) -> Settings:
    """Combine command line, environment, ``.env`` and defaults, in this order of precedence.

    ``options`` maps field names to the texts of the command line, where a relative path is
    taken from ``folder``; elsewhere it is an error. Raise SettingsError for a bad value.
    """
    given = _from_file(dotenv)
    given.update(_from_environment(environ))
    given.update(_from_options(options, folder))
    values = {field.name: _value(field, given.get(field.name)) for field in FIELDS}
    sources = {name: origin for name, (_, origin, _) in given.items()}
    values["output_dir"] = values["output_dir"] or default_output(environ, folder)
    return Settings(
        **values, sources={field.name: sources.get(field.name, "default") for field in FIELDS}
    )


def default_output(environ: Mapping[str, str], folder: Path) -> Path:
    """Return the folder that holds the runs when none was asked for."""
    return Path(environ.get("AGENT_DIR") or folder).absolute() / "logs" / "fusion_metrics"


def described(settings: Settings) -> dict[str, dict[str, Any]]:
    """Give each setting as ``{value, source}`` of plain JSON values."""
    return {
        field.name: {
            "value": _plain(getattr(settings, field.name)),
            "source": settings.sources[field.name],
        }
        for field in fields(Settings)
        if field.name != "sources"
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


# A given text: (text, where it came from in short, the subject of an error message).
_Given = tuple[str, str, str]


def _value(field: Field, given: _Given | None) -> Any:
    if given is None:
        return field.default
    text, _, subject = given
    try:
        return field.parse(text)
    except (ValueError, Refusal) as error:
        raise SettingsError(f"{subject}: expected {error}, found {text!r}; {field.help}") from error


def _from_options(options: Mapping[str, str | None], folder: Path) -> dict[str, _Given]:
    return {
        field.name: (_on_command_line(field, str(text), folder), "command line", field.option)
        for field in FIELDS
        if (text := options.get(field.name)) is not None
    }


def _on_command_line(field: Field, text: str, folder: Path) -> str:
    is_path = field.parse in (_absolute, _shape_file)
    return str((folder / text).absolute()) if is_path and text else text


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    return {
        field.name: (text, "environment", f"environment variable {field.key}")
        for field in FIELDS
        if (text := environ.get(field.key, "").strip())
    }


def _from_file(path: Path) -> dict[str, _Given]:
    if not path.is_file():
        return {}
    given: dict[str, _Given] = {}
    seen: dict[str, int] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        where = f"{path}:{number}"
        key, text = _assignment(line.strip(), where)
        if not key:
            continue
        if key in seen:
            raise SettingsError(
                f"{where}: {key} is already set in line {seen[key]}; keep one of the two lines"
            )
        seen[key] = number
        if text:
            given[_BY_KEY[key].name] = (text, ".env", f"{where}: {key}")
    return given


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: expected a readable UTF-8 file, found: {error}") from error


def _assignment(line: str, where: str) -> tuple[str, str]:
    if not line or line.startswith("#"):
        return "", ""
    key, equals, text = line.partition("=")
    key, text = key.rstrip(), text.strip()
    if not equals or not re.fullmatch(r"\w+", key):
        raise SettingsError(f"{where}: expected FUSION_NAME=value without 'export', found {line!r}")
    if key not in _BY_KEY:
        raise SettingsError(
            f"{where}: expected a known key, found {key!r}{_nearest(key)}; known are "
            + ", ".join(_BY_KEY)
        )
    if re.search(r"[$`]", text):
        raise SettingsError(
            f"{where}: {key}: expected plain text, as nothing is substituted in this file, "
            f"found {text!r}; write the value out"
        )
    return key, _unquoted(text)


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, _BY_KEY, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text

"""Know which benchmarks exist: operator -> marker, test files and test functions."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

_LINE = re.compile(
    rb"^(?:@pytest\.mark\.(?P<marker>\w+)|(?:async )?def (?P<test>test\w*)|class (?P<klass>Test\w*)"
    rb"|pytestmark\s*=\s*(?P<module>.*)|(?P<inner>[ \t]+)@pytest\.mark\.(?P<inner_marker>\w+)"
    rb"|(?P<other>[^\s@#)\]}].*))",
    re.M,
)
_GIT_SECONDS = 20
# A revision that git does not know, and the end of one that files differ from.
UNKNOWN_REVISION, DIRTY = "unknown revision", "-dirty"
_MARKER = re.compile(rb"pytest\.mark\.(\w+)")
# Marks that steer pytest itself and name no operator.
STEERING_MARKERS = frozenset(
    [
        "parametrize",
        "skip",
        "skipif",
        "xfail",
        "usefixtures",
        "filterwarnings",
        "timeout",
        "tryfirst",
        "trylast",
    ]
)


@dataclass(frozen=True)
class Benchmark:
    """Select the tests of one operator: a marker (or none), files, and maybe test functions."""

    marker: str | None
    files: tuple[str, ...]
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Hold what a benchmark folder offers. ``functions`` are (file, test, markers).

    No ``modes`` or ``dtypes``: the suite does not say which it takes.
    """

    root: Path
    embedded: bool
    revision: str
    functions: tuple[tuple[str, str, tuple[str, ...]], ...]
    modes: tuple[str, ...]
    dtypes: tuple[str, ...]
    time_unit: str

    @property
    def name(self) -> str:
        """Say which suite this is, in words for every report."""
        kind = "embedded suite (NumPy)" if self.embedded else "FlagGems"
        return f"{kind} {self.revision}"

    @cached_property
    def _files_by_marker(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for file, _, markers in self.functions:
            for marker in markers:
                found[marker][file] = None
        return {marker: tuple(files) for marker, files in found.items()}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """List the test files, relative to the root."""
        return tuple(dict.fromkeys(file for file, _, _ in self.functions))

    @cached_property
    def _files_by_stem(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for file in self.files:
            found[Path(file).stem].append(file)
        return dict(found)

    def find(self, names: Iterable[str], tests: tuple[str, ...] = ()) -> Benchmark | None:
        """Find the benchmark of an operator by its names: a marker first, else a file's name.

        ``tests`` narrows it to those test functions that the suite has.
        """
        names = tuple(names)
        for name in names:
            if name in self._files_by_marker and name not in STEERING_MARKERS:
                return self._narrowed(Benchmark(name, self._files_by_marker[name]), tests)
        for name in names:
            if files := self._files_by_stem.get(f"test_{name}"):
                return self._narrowed(Benchmark(None, tuple(files)), tests)
        return None

    def _narrowed(self, benchmark: Benchmark, tests: tuple[str, ...]) -> Benchmark | None:
        if not tests:
            return benchmark
        held = {
            (file, test)
            for file, test, _ in self.functions
            if test in tests and file in benchmark.files
        }
        if not held:
            return benchmark
        return Benchmark(
            benchmark.marker,
            tuple(file for file in benchmark.files if any(file == found for found, _ in held)),
            tuple(test for test in tests if any(test == found for _, found in held)),
        )


def scan(root: Path, embedded: bool, version: str) -> Suite:
    """Read a benchmark folder without importing it. ``version`` names an embedded suite."""
    folder = root / "benchmark"
    git = None if embedded else _asked(root)
    functions = [
        (name, test, markers)
        for name in sorted(_test_files(folder, root))
        for test, markers in functions_of((root / name).read_bytes())
    ]
    constants = _first_text(folder / "consts.py", folder / "attri_util.py")
    return Suite(
        root=root,
        embedded=embedded,
        revision=version if embedded else _told(git),
        functions=tuple(functions),
        modes=_modes(constants),
        dtypes=_dtypes(constants),
        time_unit="milliseconds" if _takes_milliseconds(constants) else "counts",
    )


def _test_files(folder: Path, root: Path) -> Iterator[str]:
    """Name the test files below a folder relative to the root; pathlib takes twice the time."""
    for base, _, names in os.walk(folder):
        inside = os.path.relpath(base, root)
        yield from (f"{inside}/{name}" for name in names if fnmatch(name, "test_*.py"))


def functions_of(source: bytes) -> list[tuple[str, tuple[str, ...]]]:
    """List the test functions of a module with their markers, from its text alone."""
    module: list[str] = []
    pending: list[str] = []
    functions: list[tuple[str, list[str]]] = []
    klass: list[str] | None = None
    for line in _LINE.finditer(source):
        if line["marker"]:
            pending.append(line["marker"].decode())
        elif line["inner_marker"] and klass is not None:
            klass.append(line["inner_marker"].decode())
        elif line["module"]:
            module += [name.decode() for name in _MARKER.findall(line["module"])]
        elif line["test"]:
            functions.append((line["test"].decode(), pending))
            pending, klass = [], None
        elif line["klass"]:
            klass = pending
            functions.append((line["klass"].decode(), klass))
            pending = []
        elif line["other"]:
            pending, klass = [], None
    return [(name, tuple(dict.fromkeys(markers + module))) for name, markers in functions]


def revision(root: Path) -> str:
    """Return the checkout's commit, marked when files differ from it; 'unknown' without git."""
    return _told(_asked(root))


def _asked(root: Path) -> subprocess.Popen[bytes] | None:
    """Ask git for the commit without waiting: it looks at every file, which takes a while."""
    words = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.Popen(
            ["git", "-C", str(root), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _told(git: subprocess.Popen[bytes] | None) -> str:
    if git is None:
        return UNKNOWN_REVISION
    try:
        told, _ = git.communicate(timeout=_GIT_SECONDS)
    except subprocess.TimeoutExpired:
        git.kill()
        git.communicate()
        return UNKNOWN_REVISION
    return told.decode().strip() if git.returncode == 0 else UNKNOWN_REVISION


def _first_text(*paths: Path) -> str:
    return next((path.read_text(errors="replace") for path in paths if path.is_file()), "")


def _modes(constants: str) -> tuple[str, ...]:
    body = re.search(r"class BenchMode\b.*?(?=^\S|\Z)", constants, re.M | re.S)
    return tuple(re.findall(r"=\s*[\"'](\w+)[\"']", body[0])) if body else ()


def _dtypes(constants: str) -> tuple[str, ...]:
    """Read which dtypes the suite has at all; FlagGems leaves that to each benchmark."""
    declared = re.search(r"^DTYPES\s*=\s*\((.*?)\)", constants, re.M | re.S)
    return tuple(re.findall(r"[\"'](\w+)[\"']", declared[1])) if declared else ()


def _takes_milliseconds(constants: str) -> bool:
    return "DEFAULT_WARMUP_COUNT" not in constants

"""Find results by what a person calls them: a run, the published set, the newest run, a CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from fusion import files, history, journal, publish, report, results
from fusion.errors import Refusal
from fusion.history import HistoryError
from fusion.journal import COVERAGE_TABLE, MANIFEST, REPORT_FILES, Journal
from fusion.results import TABLES, Results

PUBLISHED, LATEST = "published", "latest"
# What a table must have to be read as one.
_NEEDED = ("operator", "dtype", "shape", "latency_ms")


class ResultsError(Refusal):
    """Refuse a name that leads to no results, or a file that holds none."""


def find(name: str, output: Path) -> Results:
    """Read the results that ``name`` means, for the runs of an output folder.

    ``published``, ``latest`` (the newest run), a run's id or folder, a folder with report files
    (an output folder or a published state), or one table as a CSV file.
    """
    path = Path(name)
    if path.is_file():
        return _one_table(path)
    if name == PUBLISHED:
        return _published(output)
    kept = named_run(name, output)
    return of_run(kept) if kept else _folder(path)


def pair(names: Sequence[str], output: Path) -> tuple[Results, Results]:
    """Find two results to compare, with each row of both in the same table of the two."""
    if len(names) != 2:
        found = ", ".join(names) or "none"
        raise ResultsError(
            f"compare: expected two results, A and B, found {found}; each is a run, 'published', "
            "'latest', a folder with report files, or a CSV"
        )
    a, b = (find(name, output) for name in names)
    return (a, results.aligned(b, a)) if results.has_rates(a) else (results.aligned(a, b), b)


def run(name: str, output: Path) -> Journal:
    """Find the run that is called so; ``latest`` is the newest."""
    if name != LATEST:
        return history.find(output, name)
    known = history.journals(output)
    if not known:
        raise HistoryError(f"latest: expected a run in {output}, found none; 'inv run' starts one")
    return known[0]


def of_run(kept: Journal) -> Results:
    """Read a run: from its report files where they are up to date, else from its records."""
    if _is_fresh(kept):
        return _folder(kept.folder)
    return results.parse(report.file_texts(report.load(kept)))


def home(name: str, output: Path) -> Path | None:
    """Return the folder that results belong to; None for files that lie anywhere."""
    kept = named_run(name, output)
    return kept.folder if kept else output if name == PUBLISHED else None


def named_run(name: str, output: Path) -> Journal | None:
    """Return the run that is called so; None for the published set and for files."""
    path = Path(name)
    if name == PUBLISHED or path.is_file() or _holds_files(path):
        return None
    return run(name, output)


def default(output: Path) -> str:
    """Return what is meant when nothing is named: the published set, else the newest run."""
    return PUBLISHED if publish.current(output) else LATEST


def _is_fresh(kept: Journal) -> bool:
    """Tell whether the report files were written after the last outcome."""
    manifest = kept.folder / MANIFEST
    if not all((kept.folder / name).is_file() for name in REPORT_FILES):
        return False
    if _manifest_format(manifest) != report.MANIFEST_FORMAT:
        return False
    outcomes = kept.folder.glob(f"ops/**/{journal.OUTCOME}")
    written = manifest.stat().st_mtime_ns
    return all(path.stat().st_mtime_ns <= written for path in outcomes)


def _manifest_format(manifest: Path) -> object:
    """Return the format of a manifest; None where it is damaged, as by a full disk."""
    try:
        found = files.read_json(manifest)
    except files.FileError:
        return None
    return found.get("format") if isinstance(found, dict) else None


def _published(output: Path) -> Results:
    state = publish.current(output)
    if state is None:
        raise ResultsError(
            f"published: expected a published set in {output}, found none; "
            "'inv all' or 'inv merge RUN' publishes one"
        )
    return _folder(state)


def _holds_files(folder: Path) -> bool:
    is_run = (folder / journal.PLAN).is_file()
    return not is_run and any((folder / table).is_file() for table in TABLES)


def _folder(folder: Path) -> Results:
    if (folder / MANIFEST).is_file() and (folder / COVERAGE_TABLE).is_file():
        return _whole_set({name: _text(folder / name) for name in REPORT_FILES}, folder)
    tables = {name: _text(folder / name) for name in TABLES if (folder / name).is_file()}
    return _tables(tables, folder)


def _whole_set(texts: Mapping[str, str], folder: Path) -> Results:
    for name in TABLES:
        _check_columns(texts[name], folder / name)
    try:
        return results.parse(texts)
    except (ValueError, KeyError, csv.Error) as error:
        raise ResultsError(
            f"{folder}: expected the four files of a run's report, found one that is damaged: "
            f"{type(error).__name__}: {error}"
        ) from error


def _one_table(path: Path) -> Results:
    """Read a CSV, as of the first table where its columns do not tell which of the two it is."""
    text = _text(path)
    header = _header(text, path)
    known = (name for name, (_, columns) in TABLES.items() if _rate(columns) in header)
    return _tables({next(known, next(iter(TABLES))): text}, path)


def _tables(texts: Mapping[str, str], path: Path) -> Results:
    for text in texts.values():
        _check_columns(text, path)
    try:
        rows = {key: cells for each in texts.items() for key, cells in results.table_rows(*each)}
    except (ValueError, csv.Error) as error:
        raise ResultsError(f"{path}: expected a CSV, found: {error}") from error
    return Results(rows, {}, {})


def _check_columns(text: str, path: Path) -> None:
    header = _header(text, path)
    if missing := [column for column in _NEEDED if column not in header]:
        raise ResultsError(
            f"{path}: expected a table of a run, with the columns {', '.join(_NEEDED)}; "
            f"found none called {', '.join(missing)}"
        )


def _header(text: str, path: Path) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text, newline="")), [])
    except csv.Error as error:
        raise ResultsError(f"{path}: expected a CSV, found: {error}") from error


def _rate(columns: tuple[str, ...]) -> str:
    return next(column for column in columns if column.startswith("achieved_"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # spreadsheets begin with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: expected a readable UTF-8 file, found: {error}") from error

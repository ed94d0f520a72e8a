"""Fill the page in, and name the files of a report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion import export, files
from fusion.errors import Refusal
from fusion.page import facts, plots, points, reproduce
from fusion.page.plots import Drawing
from fusion.results import TABLES, Cells, Results
from fusion.rows import SUSPECT, UNSTABLE, marked

PAGE, ROOFLINE, ATTAINMENT = "report.html", "roofline", "attainment"
_FILES = Path(__file__).resolve().parent / "files"


class PageError(Refusal):
    """Refuse a folder that cannot be written."""


@dataclass(frozen=True)
class Column:
    """Declare a column of the table; ``tip``: shown at the point too, ``wide``: not on phones."""

    name: str
    title: str
    number: bool = False
    tip: bool = False
    wide: bool = False


COLUMNS = (
    Column("operator", "operator", tip=True),
    Column("shape", "shape", tip=True),
    Column("dtype", "dtype", tip=True),
    Column("latency_ms", "latency ms", number=True, tip=True),
    Column("achieved", "achieved", number=True, tip=True),
    Column("unit", "unit", tip=True),
    Column("attainment_pct", "% of target", number=True, tip=True),
    Column("ceiling_pct", "% of measured ceiling", number=True, tip=True),
    Column("mark", "mark", tip=True),
    Column("target", "target", number=True, tip=True, wide=True),
    Column("ceiling", "measured ceiling", number=True, wide=True),
    Column("latency_mad_ms", "MAD ms", number=True, tip=True, wide=True),
    Column("count", "repeats", number=True, tip=True, wide=True),
    Column("speedup", "speedup", number=True, tip=True, wide=True),
    Column("category", "category", wide=True),
    Column("pipeline", "pipeline", tip=True, wide=True),
    Column("note", "note", wide=True),
    Column("command", "reproduce"),
    Column("run_id", "run", wide=True),
)


def write(results: Results, folder: Path) -> Path:
    """Write the page and its plots into a folder; return the page, or raise PageError."""
    made = contents(results)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in made.items():
            files.write_bytes(folder / name, data)
    except OSError as error:
        raise PageError(
            f"{folder}: expected a folder that can be written, found: {error}; "
            "name another with --to"
        ) from error
    return folder / PAGE


def contents(results: Results) -> dict[str, bytes]:
    """Return the page and its plots, as SVG and PNG, by file name."""
    placed, summed = points.points(results), points.attainments(results)
    roofline = plots.roofline(placed, points.roofs(results))
    attainment = plots.attainment(summed)
    page = html(results, roofline, attainment, len(summed))
    drawn = {ROOFLINE: roofline, ATTAINMENT: attainment}
    return {
        PAGE: page.encode(),
        **{f"{name}.svg": drawing.svg.encode() for name, drawing in drawn.items()},
        **{f"{name}.png": drawing.png for name, drawing in drawn.items()},
    }


def html(results: Results, roofline: Drawing, attainment: Drawing, operators: int) -> str:
    """Fill the page in; every text of the results is escaped."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(loader=FileSystemLoader(_FILES), autoescape=True, trim_blocks=True)
    placed = sum(place is not None for place in roofline.places)
    return environment.get_template("page.html").render(
        title=export.title(results),
        summary=facts.summary(results),
        percentages=facts.percentages(results),
        css=Markup(_text("page.css")),
        js=Markup(_text("page.js")),
        data=Markup(_script_safe(data(results, roofline))),
        roofline=Markup(inline(roofline.svg, ROOFLINE)),
        attainment=Markup(inline(attainment.svg, ATTAINMENT)),
        placed=placed,
        unplaced=len(roofline.places) - placed,
        more_operators=max(0, operators - plots.MOST_BARS),
        coverage=facts.coverage(results),
        facts=facts.sections(results.manifest),
    )


def data(results: Results, roofline: Drawing) -> dict[str, Any]:
    """Return what the page's script works on: columns, rows, commands, points."""
    commands: dict[str, int] = {}
    lines = [
        _line(TABLES[key[0]][0], cells, results.manifest, commands)
        for key, cells in results.rows.items()
    ]
    return {
        "columns": [vars(column) for column in COLUMNS],
        "rows": lines,
        "commands": list(commands),
        "places": roofline.places,
        "size": roofline.size,
    }


def inline(svg: str, name: str) -> str:
    """Fit a drawing into the page: its ids made its own, its ink that of the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="(?!points-)', f'id="{name}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    return body.replace(plots.INK, "var(--ink)")


def _line(
    category: str, cells: Cells, manifest: Mapping[str, Any], commands: dict[str, int]
) -> list[Any]:
    rate = "tflops" if category == "compute" else "gbps"
    command = reproduce.command(cells, manifest)
    known: dict[str, Any] = {
        **cells,
        "category": category,
        "achieved": cells.get(f"achieved_{rate}"),
        "target": cells.get(f"target_{rate}"),
        "ceiling": cells.get(f"ceiling_{rate}"),
        "unit": "TFLOPS" if category == "compute" else "GB/s",
        "mark": " ".join(marks(cells.get("note", ""))),
        "command": commands.setdefault(command, len(commands)),
    }
    return [_cell(known.get(column.name), column) for column in COLUMNS]


def marks(note: str) -> Sequence[str]:
    """Name what a row's note says against it."""
    return [mark for mark in (SUSPECT, UNSTABLE) if marked(note, mark)]


def _cell(value: Any, column: Column) -> Any:
    if value is None or value == "":
        return None
    return export.plain_number(value) if column.number else value


def _script_safe(value: Any) -> str:
    """Write strict JSON that cannot end the script element that holds it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def _text(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")

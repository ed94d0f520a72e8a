"""Draw the roofline and the attainments with Matplotlib, as SVG and PNG.

Matplotlib is imported when something is drawn, since importing it takes longer than most tasks.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusion.page.points import MEMORY_BAND, Attainment, Point, Roof

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that stand out from white and from black alike.
COLOURS = {"compute": "#3b82d6", "memory": "#e07b24"}
INK, GRID = "#444444", "#999999"
_STYLES = {
    "target": ("#2f9e62", "-", "target (data sheet)"),
    "peak": ("#8a8a8a", "--", "peak (data sheet)"),
    "measured": ("#c2439b", ":", "measured ceiling"),
}
# So many points are drawn as shapes of their own; more of them become one picture in the SVG.
MOST_SHAPES = 3000
# So many operators fit a chart; of more, the worst are drawn.
MOST_BARS = 120
_WIDTH_IN, _ROOF_HEIGHT_IN, _BAR_IN = 10.0, 6.0, 0.24
_POINTS_PER_INCH = 72
_PNG_DPI = 150


@dataclass(frozen=True)
class Drawing:
    """Hold a plot as SVG text and PNG bytes.

    ``places`` are the points' coordinates in the SVG's own units, by row; None where a row is not
    drawn. ``size`` is the width and height in these units.
    """

    svg: str
    png: bytes
    size: tuple[float, float]
    places: tuple[tuple[float, float] | None, ...] = ()


def roofline(placed: Sequence[Point], roofs: Sequence[Roof]) -> Drawing:
    """Draw performance over arithmetic intensity, both logarithmic, under the ceilings."""
    drawn = [point for point in placed if point.x and point.y]
    figure, axes = _figure(_ROOF_HEIGHT_IN)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("arithmetic intensity, FLOP/byte")
    axes.set_ylabel("performance, TFLOPS")
    low, high = _range([point.x or 1.0 for point in drawn], [roof.ridge for roof in roofs])
    for roof in roofs:
        _draw_roof(axes, roof, low, high)
    for category, colour in COLOURS.items():
        own = [point for point in drawn if point.category == category]
        if own:
            _scatter(axes, own, colour, len(drawn) > MOST_SHAPES)
    if any(point.category == "memory" for point in drawn):
        _name_band(axes)
    axes.set_xlim(low, high)
    if roofs or drawn:
        _legend(axes)
    return _drawing(figure, lambda: _places(axes, placed))


def attainment(operators: Sequence[Attainment]) -> Drawing:
    """Draw a bar per operator, the median over its shapes, with the spread from worst to best."""
    shown = list(operators[:MOST_BARS])
    figure, axes = _figure(max(2.0, 1.2 + _BAR_IN * len(shown)))
    places = range(len(shown))
    middles = [each.middle for each in shown]
    spread = [
        [each.middle - each.worst for each in shown],
        [each.best - each.middle for each in shown],
    ]
    colours = [COLOURS[each.category] for each in shown]
    axes.barh(places, middles, color=colours, alpha=0.75, height=0.7)
    axes.errorbar(
        middles, places, xerr=spread, fmt="none", ecolor=INK, elinewidth=1, capsize=2, gid="spread"
    )
    measured = [(i, each.ceiling_pct) for i, each in enumerate(shown) if each.ceiling_pct]
    if measured:
        axes.plot(
            [pct for _, pct in measured],
            [place for place, _ in measured],
            marker="D",
            linestyle="none",
            color=_STYLES["measured"][0],
            markersize=4,
            label="median % of the measured ceiling",
        )
    axes.axvline(100, color=_STYLES["target"][0], linewidth=1, label="the target")
    axes.set_yticks(places, [f"{each.operator} ({each.shapes})" for each in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("attained, % of the target: median over shapes, whiskers from worst to best")
    if shown:
        _legend(axes)
    return _drawing(figure, tuple)


def _figure(height: float) -> tuple[Figure, Axes]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fusion-metrics"})
    figure = Figure((_WIDTH_IN, height), dpi=_POINTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    axes.grid(visible=True, which="major", color=GRID, linewidth=0.4, alpha=0.5)
    axes.tick_params(colors=INK, which="both")
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(INK)
    return figure, axes


def _range(intensities: Sequence[float], ridges: Sequence[float]) -> tuple[float, float]:
    everything = [*intensities, *ridges, MEMORY_BAND[0], 1.0]
    return min(everything) / 2, max(everything) * 30


def _draw_roof(axes: Axes, roof: Roof, low: float, high: float) -> None:
    colour, line, label = _STYLES[roof.kind]
    xs = [low, roof.ridge, high]
    known = axes.get_legend_handles_labels()[1]
    axes.plot(
        xs,
        [roof.height(x) for x in xs],
        line,
        color=colour,
        linewidth=1.2,
        label=None if label in known else label,
    )
    axes.plot([roof.ridge], [roof.tflops], "v", color=colour, markersize=5)
    axes.annotate(
        f"{roof.label}: {roof.tflops:.3g} TFLOPS, ridge {roof.ridge:.3g}",
        (high, roof.tflops),
        textcoords="offset points",
        xytext=(-2, 2),
        ha="right",
        fontsize=7,
        color=colour,
    )
    _name_slope(axes, roof, low, colour)


def _name_slope(axes: Axes, roof: Roof, low: float, colour: str) -> None:
    text = f"{roof.gbps:.4g} GB/s"
    if text in (drawn.get_text() for drawn in axes.texts):
        return  # several dtypes share a bandwidth
    x = low * 1.3
    axes.annotate(
        text,
        (x, roof.height(x)),
        textcoords="offset points",
        xytext=(0, 9),
        fontsize=7,
        color=colour,
    )


def _scatter(axes: Axes, own: Sequence[Point], colour: str, is_picture: bool) -> None:
    category = own[0].category
    axes.scatter(
        [point.x or 0.0 for point in own],
        [point.y or 0.0 for point in own],
        s=16,
        color=colour,
        alpha=0.8,
        linewidths=0,
        label=f"{category} operators",
        gid=f"points-{category}",
        rasterized=is_picture,
        zorder=3,
    )


def _name_band(axes: Axes) -> None:
    axes.axvspan(*MEMORY_BAND, color=COLOURS["memory"], alpha=0.07, linewidth=0)
    axes.text(
        MEMORY_BAND[0],
        0.01,
        " memory operators: no FLOP counted;\n ordered by bytes, height shows GB/s",
        transform=axes.get_xaxis_transform(),
        fontsize=7,
        color=INK,
        va="bottom",
    )


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=8, loc="lower right", framealpha=0, labelcolor=INK)


def _places(axes: Axes, placed: Sequence[Point]) -> tuple[tuple[float, float] | None, ...]:
    height = _ROOF_HEIGHT_IN * _POINTS_PER_INCH
    drawn = [point for point in placed if point.x and point.y]
    if not drawn:
        return (None,) * len(placed)
    found = axes.transData.transform([(point.x or 0.0, point.y or 0.0) for point in drawn])
    by_index = {
        point.index: (round(float(x), 2), round(float(height - y), 2))
        for point, (x, y) in zip(drawn, found, strict=True)
    }
    return tuple(by_index.get(point.index) for point in placed)


def _drawing(
    figure: Figure, places: Callable[[], tuple[tuple[float, float] | None, ...]]
) -> Drawing:
    svg, png = io.StringIO(), io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None}
    figure.savefig(svg, format="svg", transparent=True, metadata=metadata)
    found = places()
    figure.savefig(png, format="png", dpi=_PNG_DPI, facecolor="white")
    width, height = (inches * _POINTS_PER_INCH for inches in figure.get_size_inches())
    return Drawing(svg.getvalue(), png.getvalue(), (float(width), float(height)), found)

"""The report page opens in a real browser without errors, sorts, filters and shows the points."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile

import pytest

from fusion import lookup, results, session
from fusion.page import html as page
from fusion.page import points

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def reported(everything, tmp_path_factory):
    """A report of the run of all small operators, with a compute operator among them."""
    _, found = everything
    folder = tmp_path_factory.mktemp("report")
    made = page.contents(lookup.of_run(found.journal))
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return found, folder


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None or shutil.which("chromedriver") is None:
        pytest.skip("Chromium and its chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1000"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, reported):
    """The page, freshly opened from disk."""
    browser.get((reported[1] / page.PAGE).as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
    return browser


def table(found):
    """The rows of both CSV files."""
    lines = []
    for name in results.TABLES:
        with (found.journal.folder / name).open(newline="") as stream:
            lines += csv.DictReader(stream)
    return lines


def column(browser, number):
    return browser.execute_script(
        "return [...document.querySelectorAll('#table tbody tr')]"
        f".map(row => row.children[{number}].textContent)"
    )


def place(name):
    return next(i for i, each in enumerate(page.COLUMNS) if each.name == name)


def press(browser, script):
    browser.execute_script(script)


def test_page_opens_without_errors_and_without_a_network(opened):
    """The console stays empty and nothing is fetched."""
    assert opened.get_log("browser") == []
    fetched = opened.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert [name for name in fetched if not name.startswith("data:")] == []


def test_page_shows_every_row_of_the_csv(opened, reported):
    """The table has the operators, shapes and percentages of the files."""
    lines = table(reported[0])
    assert sorted(column(opened, place("shape"))) == sorted(line["shape"] for line in lines)
    shown = sorted(filter(None, column(opened, place("attainment_pct"))), key=float)
    known = sorted(float(line["attainment_pct"]) for line in lines if line["attainment_pct"])
    assert [float(text) for text in shown] == pytest.approx(known, rel=1e-3)


def test_points_are_those_of_the_csv(opened, reported):
    """Every row with a place is a point of the drawing, and the label counts them."""
    found, folder = reported
    placed = [point for point in points.points(lookup.of_run(found.journal)) if point.x and point.y]
    assert placed
    label = opened.execute_script("return document.getElementById('plot').ariaLabel")
    assert label == f"Roofline: {len(placed)} points"
    drawn = opened.execute_script(
        "return document.querySelectorAll('#plot [id^=points-] use').length"
    )
    assert drawn == len(placed)
    svg = (folder / "roofline.svg").read_text()
    assert sum(
        part.count("<use ") for part in re.findall(r'<g id="points-.*?</g>\s*</g>', svg, re.S)
    )


def test_rows_sort_by_any_column(opened):
    """A header sorts upwards first, then downwards, and says so."""
    number = place("latency_ms")
    button = f"document.querySelectorAll('#table thead button')[{number}]"
    press(opened, f"{button}.click()")
    upwards = [float(text) for text in column(opened, number)]
    assert upwards == sorted(upwards)
    press(opened, f"{button}.click()")
    assert [float(text) for text in column(opened, number)] == upwards[::-1]
    assert opened.execute_script(f"return {button}.parentNode.ariaSort") == "descending"


def test_filter_picks_rows_and_points(opened, reported):
    """Words narrow the table and the drawing alike."""
    press(
        opened,
        "const box = document.getElementById('filter'); box.value = 'product';"
        "box.dispatchEvent(new Event('input'))",
    )
    names = set(column(opened, place("operator")))
    assert names == {"product"}
    expected = sum(line["operator"] == "product" for line in table(reported[0]))
    assert len(column(opened, place("operator"))) == expected
    path = opened.execute_script("return document.getElementById('picked').getAttribute('d')")
    assert path.count("M") == expected
    count = opened.execute_script("return document.getElementById('count').textContent")
    assert count.startswith(f"{expected} of ")


def test_pointing_at_a_case_tells_about_it(opened):
    """The tip names operator, shape and attainment of the nearest case."""
    text = opened.execute_script(
        """
        const data = JSON.parse(document.getElementById("data").textContent);
        const svg = document.querySelector("#plot svg"), box = svg.getBoundingClientRect();
        const index = data.places.findIndex(Boolean), [x, y] = data.places[index];
        const scale = box.width / data.size[0];
        const at = {clientX: box.left + x * scale, clientY: box.top + y * scale, bubbles: true};
        document.getElementById("plot").dispatchEvent(new PointerEvent("pointermove", at));
        return [document.getElementById("tip").textContent, ...data.rows[index].slice(0, 2)];
        """
    )
    assert text[1] in text[0]
    assert text[2] in text[0]
    assert "% of target" in text[0]


def test_points_lie_where_the_drawing_has_them(opened):
    """The coordinates of the tips are those of the drawn shapes."""
    away = opened.execute_script(
        """
        const data = JSON.parse(document.getElementById("data").textContent);
        const drawn = [...document.querySelectorAll("#plot [id^=points-] use")]
            .map((use) => [Number(use.getAttribute("x")), Number(use.getAttribute("y"))]);
        return Math.max(...drawn.map(([x, y]) => Math.min(...data.places.filter(Boolean)
            .map(([px, py]) => Math.hypot(px - x, py - y)))));
        """
    )
    assert away < 0.5


def test_keyboard_goes_from_case_to_case_and_to_its_row(opened):
    """Arrow keys show a case, Enter marks its row and moves the focus there."""
    shown = opened.execute_script(
        """
        const plot = document.getElementById("plot");
        plot.focus();
        plot.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
        const tip = document.getElementById("tip").textContent;
        plot.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
        return [tip, document.activeElement.firstChild.textContent];
        """
    )
    assert shown[0].startswith(shown[1])


def test_each_row_has_its_command(opened, reported):
    """The command names the operator and the conditions of the row."""
    commands = opened.execute_script(
        "return [...document.querySelectorAll('#table code')].map(code => code.textContent)"
    )
    assert len(commands) == len(table(reported[0]))
    assert all(re.match(r"inv run --ops \w+ --pipeline S[VM]E --mode kernel", c) for c in commands)


def test_page_fits_a_phone(opened):
    """Nothing but the scrolling tables is wider than a small screen."""
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True},
    )
    widths = opened.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert widths[0] <= widths[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(opened, scheme):
    """Ink and paper have the contrast that WCAG asks of text, in either scheme."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    colours = opened.execute_script(
        "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
    )
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    light, dark = sorted((luminance(colour) for colour in colours), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 7
    assert (luminance(colours[1]) < 0.5) == (scheme == "dark")


def luminance(colour):
    """Relative luminance by WCAG 2."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_printing_has_every_row(browser, tmp_path, many):
    """What is not on the screen yet is there on paper."""
    browser.get((many / page.PAGE).as_uri())
    assert len(column(browser, 0)) < 1000
    press(browser, "window.dispatchEvent(new Event('beforeprint'))")
    assert len(column(browser, 0)) == 1000


@pytest.fixture
def many(everything, tmp_path):
    """A page of a thousand rows."""
    found = lookup.of_run(everything[1].journal)
    key, cells = next(iter(found.rows.items()))
    rows = {(*key[:3], str(i), 0): {**cells, "shape": str(i)} for i in range(1000)}
    made = page.contents(results.Results(rows, found.coverage, found.manifest))
    (tmp_path / page.PAGE).write_bytes(made[page.PAGE])
    return tmp_path


def test_texts_of_results_cannot_break_the_page(browser, everything, tmp_path):
    """Markup in names, shapes and reasons stays text."""
    found = lookup.of_run(everything[1].journal)
    evil = "</script><img src=x onerror=\"document.title='broken'\">"
    rows = {key: {**cells, "note": evil, "shape": evil} for key, cells in found.rows.items()}
    coverage = {name: {**line, "reason": evil} for name, line in found.coverage.items()}
    made = page.contents(results.Results(rows, coverage, found.manifest))
    (tmp_path / page.PAGE).write_bytes(made[page.PAGE])
    browser.get((tmp_path / page.PAGE).as_uri())
    assert set(column(browser, place("shape"))) == {evil}
    assert browser.title != "broken"


def test_report_lands_beside_the_run(bench):
    """The page and both plots are written as files."""
    found = bench.run("good", "product")
    name = found.plan.run_id
    path = session.write_report(name, bench.output, None, bench.around)
    assert path == found.journal.folder / "report" / "report.html"
    assert {each.name for each in path.parent.iterdir()} == {
        "report.html",
        "roofline.svg",
        "roofline.png",
        "attainment.svg",
        "attainment.png",
    }
    assert (path.parent / "roofline.png").read_bytes().startswith(b"\x89PNG")


def test_data_is_strict_json(reported):
    """No bare NaN reaches the page's script."""
    text = (reported[1] / page.PAGE).read_text()
    held = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1]
    assert json.loads(held, parse_constant=pytest.fail)["rows"]

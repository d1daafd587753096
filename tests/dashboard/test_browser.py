"""The page in a real browser: what a person sees and does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, ViewportSize

import muntin as mt
from muntin.dashboard import Dashboard, serve
from tests.dashboard.pages import SQL, batch, operator

WIDE = ViewportSize(width=1200, height=800)
PHONE = ViewportSize(width=390, height=844)
SHOTS = Path("out/dashboard")  # where pictures of the tests are kept

# Where bars are, and of what kind, as the page has drawn them.
BARS = """(query) => page.timeline.drawn.filter((one) => one.lane.query === query).map((one) => ({
  kind: one.bar.open ? "open" : ["closed", "corrected", "retracted"][
    one.bar.change === 2 ? 2 : Math.min(1, one.bar.revision)],
  start: one.bar.start, end: one.bar.end, value: one.bar.value, before: one.bar.before,
  x: one.x + one.w / 2, y: one.y + one.h / 2 }))"""

# The colour of the line round a bar, read from the canvas: what is really there.
EDGE = """([query, start]) => {
  const closed = page.timeline.drawn.filter(({ lane, bar }) => lane.query === query && !bar.open);
  const one = closed.find(({ bar }) => bar.start === start);
  if (!one) return null;
  const at = [one.x + one.w / 2, one.y + 0.5].map((place) => Math.round(place * devicePixelRatio));
  return Array.from(page.timeline.canvas.getContext("2d").getImageData(...at, 1, 1).data).slice(0, 3).join();
}"""

INK = """() => {
  const canvas = document.querySelector("#chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0 && data[i + 1] - data[i] > 60) count++;
  return count;
}"""


@contextmanager
def opened(
    browser: Browser, dashboard: Dashboard, size: ViewportSize = WIDE, path: str = "", **options: Any
) -> Iterator[Page]:
    """A page of a dashboard; nothing that it logs as an error goes by unseen."""
    context = browser.new_context(viewport=size, **options)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    try:
        page.goto(dashboard.url + path)
        yield page
        lost = [text for text in errors if "WebSocket connection" not in text]  # while the server is away
        assert not lost
    finally:
        context.close()


def eventually(holds: Callable[[], Any], seconds: float = 8) -> Any:
    """Wait until something holds, and return it."""
    until = time.monotonic() + seconds
    while True:
        found = holds()
        if found or time.monotonic() > until:
            assert found
            return found
        time.sleep(0.05)


def kept(page: Page, name: str) -> None:
    """Keep a picture of the page."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


@pytest.fixture
def stream() -> Iterator[tuple[mt.WindowOperator, Dashboard]]:
    """An operator with some windows, and its dashboard."""
    op = operator()
    with serve(op, port=0, allow_queries=True, title="cars") as dashboard:
        op.process({**batch(list(range(0, 100, 2))), "speed": [float(t % 14) for t in range(0, 100, 2)]})
        yield op, dashboard


def shown(page: Page) -> None:
    """Wait for the first picture."""
    eventually(lambda: page.evaluate("Number(document.getElementById('chart').dataset.pictures ?? 0) > 0"))
    eventually(lambda: page.evaluate("page.timeline.drawn.some((one) => !one.bar.open)"))


def test_first_picture(browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]) -> None:
    with opened(browser, stream[1]) as page:
        shown(page)
        assert page.title() == "cars"
        assert page.inner_text("#status") == "live"
        assert page.evaluate(INK) > 200
        eventually(lambda: {bar["kind"] for bar in page.evaluate(BARS, "tens")} == {"open", "closed"})
        assert "shared by" in page.inner_text("#graph")
        kept(page, "first")


def test_zoom_by_dragging_and_a_link_that_holds_the_view(
    browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]
) -> None:
    with opened(browser, stream[1]) as page:
        shown(page)
        eventually(lambda: page.evaluate("page.view[1] === page.state.newest"))
        before = page.evaluate("page.view")
        box = page.locator("#chart .u-over").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.25, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
        page.mouse.up()
        eventually(lambda: page.evaluate("!page.follows"))
        low, high = page.evaluate("page.view")
        assert low == pytest.approx(before[0] + (before[1] - before[0]) * 0.25, abs=2)
        assert high == pytest.approx(before[0] + (before[1] - before[0]) * 0.5, abs=2)
        eventually(lambda: page.get_attribute("#live", "aria-pressed") == "false")
        link = page.evaluate("location.hash")
        # A line is not cut at the edge of a view: it goes on to the points beyond.
        eventually(lambda: page.evaluate("[...page.lines.points.values()][0].time[0]") < low)
        assert page.evaluate("[...page.lines.points.values()][0].time.at(-1)") > high
        page.keyboard.press("l")
        eventually(lambda: page.evaluate("page.follows"))
    with opened(browser, stream[1], path=link) as page:
        shown(page)
        assert page.evaluate("page.view.map(Math.round)") == [round(low), round(high)]


def test_a_late_record_corrects_a_bar_before_ones_eyes(
    browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]
) -> None:
    op, dashboard = stream
    with opened(browser, dashboard) as page:
        shown(page)
        (start,) = [b["start"] for b in page.evaluate(BARS, "tens") if b["kind"] == "closed"][-1:]
        closed = page.evaluate(EDGE, ["tens", start])
        late = int(page.evaluate("page.times.absolute(0)")) + int(start) + 1
        op.process(batch([late]))
        corrected = eventually(lambda: [b for b in page.evaluate(BARS, "tens") if b["kind"] == "corrected"])
        assert [(b["start"], b["value"], b["before"]) for b in corrected] == [(start, 6.0, 5.0)]
        eventually(lambda: page.evaluate(EDGE, ["tens", start]) != closed)
        kept(page, "corrected")


def test_a_retraction_is_struck_through(browser: Browser) -> None:
    op = operator()
    with serve(op, port=0) as dashboard:
        op.process(batch([1, 2, 6, 7, 40]))
        with opened(browser, dashboard) as page:
            shown(page)
            eventually(lambda: len([b for b in page.evaluate(BARS, "trips") if b["kind"] == "closed"]) == 2)
            op.process(batch([4]))
            eventually(
                lambda: (
                    sorted(b["kind"] for b in page.evaluate(BARS, "trips") if b["kind"] != "open")
                    == ["closed", "retracted", "retracted"]
                )
            )
            kept(page, "retracted")


def test_a_query_is_added_by_sql_and_removed(
    browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]
) -> None:
    op, dashboard = stream
    with opened(browser, dashboard) as page:
        shown(page)
        page.fill("#sql", "DROP TABLE cars")
        page.click("#sql-add")
        eventually(lambda: page.inner_text("#sql-said"))
        page.fill("#sql", SQL)
        page.fill("#sql-name", "added")
        page.keyboard.press("Control+Enter") if page.evaluate(
            "document.activeElement.id"
        ) == "sql" else page.click("#sql-add")
        eventually(lambda: "added was added" in page.inner_text("#sql-said"))
        assert "added" in op.queries
        op.process(batch(list(range(100, 190, 3))))
        eventually(lambda: [b for b in page.evaluate(BARS, "added") if b["kind"] == "closed"])
        assert page.locator("#line option", has_text="added: fast").count() == 1
        page.click("[data-remove='added']")
        eventually(lambda: "added" not in op.queries)
        eventually(lambda: not page.evaluate(BARS, "added"))


def test_the_form_writes_sql(browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]) -> None:
    op, dashboard = stream
    with opened(browser, dashboard) as page:
        shown(page)
        page.select_option("#form-window", "sliding")
        page.fill("#form-length", "20")
        page.fill("#form-every", "10")
        page.select_option("#form-aggregate", "MAX")
        page.fill("#form-column", "speed")
        page.click("#form-write")
        page.focus("#sql")
        page.keyboard.press("Control+Enter")
        eventually(lambda: len(op.queries) == 5)
        assert list(op.queries.values())[-1].window == mt.sliding(20, every=10)


def test_read_only_pages_have_no_form(browser: Browser) -> None:
    op = operator()
    with serve(op, port=0) as dashboard:
        op.process(batch([1, 2, 40]))
        with opened(browser, dashboard) as page:
            shown(page)
            assert not page.is_visible("#sql-form")
            assert page.locator("[data-remove]").count() == 0


def test_dark_and_light(browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, stream[1], color_scheme="dark") as page:
        shown(page)
        dark = page.evaluate(background)
        assert max(map(int, dark[4:-1].split(","))) < 40
        kept(page, "dark")
        page.keyboard.press("t")
        assert min(map(int, page.evaluate(background)[4:-1].split(","))) > 200


def test_on_a_phone(browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]) -> None:
    with opened(browser, stream[1], PHONE, device_scale_factor=2, has_touch=True, is_mobile=True) as page:
        shown(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate(INK) > 100
        small = page.evaluate(
            """[...document.querySelectorAll("button, select, td, dd")]
            .filter((e) => e.offsetParent && parseFloat(getComputedStyle(e).fontSize) < 11).length"""
        )
        assert small == 0
        kept(page, "phone")


def test_it_comes_back_after_the_server_restarts(browser: Browser) -> None:
    first = operator()
    dashboard = serve(first, port=0)
    first.process(batch([1, 2, 40]))
    with opened(browser, dashboard) as page:
        shown(page)
        dashboard.stop()
        eventually(lambda: page.inner_text("#status") == "reconnecting")
        second = operator()
        with serve(second, port=dashboard.port) as again:
            second.process(batch([41, 42, 60], "other"))
            eventually(lambda: page.inner_text("#status") == "live")
            eventually(lambda: "other" in page.inner_text("#chosen"))
            eventually(lambda: [b for b in page.evaluate(BARS, "tens") if b["kind"] == "closed"])
            assert again.port == dashboard.port


def test_a_stretch_is_looked_up(browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]) -> None:
    with opened(browser, stream[1]) as page:
        shown(page)
        page.select_option("#line", label="tens: n")
        box = page.locator("#chart .u-over").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.keyboard.down("Shift")
        page.mouse.move(box["x"] + box["width"] * 0.2, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=4)
        page.mouse.up()
        page.keyboard.up("Shift")
        page.wait_for_selector("#looked-up table")
        text = page.inner_text("#looked-up")
        assert "window_start" in text
        assert "avg" in text


def test_pointing_at_a_window_lists_its_slices(
    browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]
) -> None:
    with opened(browser, stream[1]) as page:
        shown(page)
        bar = next(b for b in page.evaluate(BARS, "tens") if b["kind"] == "closed" and b["start"] >= -40)
        box = page.locator("#timeline canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + bar["x"], box["y"] + bar["y"])
        eventually(lambda: page.evaluate("document.getElementById('tip').innerText.includes('slices')"))
        text = page.inner_text("#tip")
        assert "2 slices, 5 records" in text
        shared = page.evaluate(
            """page.timeline.drawn.filter((one) => page.timeline.shares(one.lane, one.bar))
            .map((one) => one.lane.query)"""
        )
        assert {"tens", "top", "line"} <= set(shared)
        assert "trips" not in shared


def test_rows_and_pictures_are_saved(
    browser: Browser, stream: tuple[mt.WindowOperator, Dashboard], tmp_path: Path
) -> None:
    with opened(browser, stream[1]) as page:
        shown(page)
        for button, name in (("#png", "lines.png"), ("#csv", "windows.csv"), ("#parquet", "windows.parquet")):
            with page.expect_download() as caught:
                page.click(button)
            assert caught.value.suggested_filename == name
            caught.value.save_as(tmp_path / name)
        assert (tmp_path / "lines.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "windows.csv").read_text().startswith('"car","query","window_start"')
        assert pa.parquet.read_table(tmp_path / "windows.parquet").num_rows > 10


def test_keys_pause_and_move(browser: Browser, stream: tuple[mt.WindowOperator, Dashboard]) -> None:
    op, dashboard = stream
    with opened(browser, dashboard) as page:
        shown(page)
        page.keyboard.press("Space")
        assert page.inner_text("#status") == "paused"
        view = page.evaluate("page.view")
        op.process(batch([140, 150]))
        time.sleep(1.2)
        assert page.evaluate("page.view") == view
        page.keyboard.press("Space")
        eventually(lambda: page.evaluate(f"page.view[1] > {view[1]}"))
        page.keyboard.press("ArrowLeft")
        eventually(lambda: page.evaluate("!page.follows"))
        page.keyboard.press("+")
        page.keyboard.press("?")
        assert page.is_visible("#keys-help")
        page.keyboard.press("Escape")


def test_a_token_is_all_that_a_page_needs(browser: Browser) -> None:
    op = operator()
    with serve(op, port=0, token="a-token-of-tests") as dashboard:
        op.process(batch([1, 2, 40]))
        with opened(browser, dashboard) as page:
            shown(page)
            assert "token" not in page.url
            page.reload()
            shown(page)

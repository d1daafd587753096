"""M4 draws the same pixels as all points: a million of them, painted in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, Route

import muntin as mt
from muntin.dashboard import serve
from muntin.dashboard.hub import Hub

POINTS, SLICE, HEIGHT = 1_000_000, 50, 300
WIDTHS = (400, 801, 1600)
ZOOMS = ((0.0, 1.0), (0.3, 0.62), (0.51, 0.6))

# Points are rounded to pixels and joined by whole-number lines, so that nothing is smoothed away. Returns how
# many pixels differ, and how many are painted at all.
COMPARE = """({ width, height, origin, step, low, high }) => {
  const paint = ([time, value]) => {
    const image = new ImageData(width, height), cells = new Uint32Array(image.data.buffer);
    const put = (x, y) => {
      if (x >= 0 && x < width && y >= 0 && y < height) cells[y * width + x] = 0xff000000;
    };
    let before = null;
    for (let i = 0; i < time.length; i++) {
      const x = Math.floor((time[i] - origin) / step);
      const y = Math.round(((high - value[i]) / (high - low)) * (height - 1));
      if (before) join(put, before[0], before[1], x, y); else put(x, y);
      before = [x, y];
    }
    return cells;
  };
  const join = (put, x, y, toX, toY) => {
    const dx = Math.abs(toX - x), dy = -Math.abs(toY - y), sx = x < toX ? 1 : -1, sy = y < toY ? 1 : -1;
    let error = dx + dy;
    for (;;) {
      put(x, y);
      if (x === toX && y === toY) return;
      const twice = 2 * error;
      if (twice >= dy) { error += dy; x += sx; }
      if (twice <= dx) { error += dx; y += sy; }
    }
  };
  const raw = paint(points.raw), few = paint(points.m4);
  let differ = 0, painted = 0;
  for (let i = 0; i < raw.length; i++) { differ += raw[i] !== few[i]; painted += raw[i] !== 0; }
  return [differ, painted];
}"""

# The same by uPlot's own paths, which are smoothed.
BY_UPLOT = """async ({ width, height, start, end, low, high }) => {
  const uPlot = (await import("/vendor/uPlot.esm.js")).default;
  const draw = async (data) => {
    const place = document.body.appendChild(document.createElement("div"));
    const options = { width, height, legend: { show: false },
      axes: [{ show: false }, { show: false }], padding: [0, 0, 0, 0],
      scales: { x: { time: false, range: [start, end] }, y: { range: [low, high] } },
      series: [{}, { stroke: "black", width: 1, points: { show: false } }] };
    const plot = new uPlot(options, data, place);
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const { canvas } = plot.ctx, image = plot.ctx.getImageData(0, 0, canvas.width, canvas.height);
    plot.destroy();
    place.remove();
    return image.data;
  };
  const raw = await draw(points.raw), few = await draw(points.m4);
  let differ = 0, far = 0, painted = 0;
  for (let i = 3; i < raw.length; i += 4) {
    differ += raw[i] !== few[i];
    far += Math.abs(raw[i] - few[i]) > 127;
    painted += few[i] > 0;
  }
  return [differ, far, painted];
}"""


def walk(disorder: float) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """A random walk with spikes: times, values, and the order in which they arrive."""
    rng = np.random.default_rng(5)
    value = np.cumsum(rng.normal(size=POINTS)) + (rng.random(POINTS) < 1e-4) * rng.normal(size=POINTS) * 400
    time = np.arange(POINTS, dtype=np.int64)
    late = np.where(rng.random(POINTS) < disorder, rng.integers(1, 4000, POINTS), 0)
    return time, value, np.argsort(time + late, kind="stable")


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page of a dashboard, for its files and its policy."""
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t")
    with serve(op, port=0) as dashboard:
        context = browser.new_context()
        opened = context.new_page()
        opened.goto(dashboard.url)
        yield opened
        context.close()


def hand_over(page: Page, name: str, time: NDArray[np.int64], value: NDArray[np.float64]) -> None:
    """Let the page have points: it fetches them as bytes, which is how a million come quickly."""
    held = {"time": time.astype("<f8").tobytes(), "value": value.astype("<f8").tobytes()}

    def answer(route: Route) -> None:
        side = route.request.url.rpartition("/")[2]
        route.fulfill(body=held[side], content_type="application/octet-stream")

    page.route("**/points/*", answer)
    page.evaluate(
        """async (name) => {
          const read = async (side) => new Float64Array(await (await fetch(`/points/${side}`)).arrayBuffer());
          window.points = { ...window.points, [name]: [await read("time"), await read("value")] };
        }""",
        name,
    )
    page.unroute("**/points/*")


@pytest.mark.parametrize("disorder", [0.0, 0.2])
def test_no_pixel_differs(page: Page, disorder: float, capsys: pytest.CaptureFixture[str]) -> None:
    time, value, order = walk(disorder)
    watermark = 4000 if disorder else 0
    op = mt.WindowOperator(mt.tumbling(SLICE).agg(line=mt.m4("v"), name="q"), time="t", watermark=watermark)
    hub = Hub(op)
    hub.watch()
    for part in np.array_split(order, 20):
        op.process(pa.table({"t": time[part], "v": value[part]}))
    op.finish()
    hub.update()
    assert len(hub.lines["q", "line"]) == POINTS // SLICE
    told = []
    for begin, end in ZOOMS:
        start, stop = round(begin * POINTS), round(end * POINTS)
        seen = slice(max(0, start - 1), stop + 1)  # with the neighbours beyond the view
        hand_over(page, "raw", time[seen], value[seen])
        low, high = float(value[start:stop].min()), float(value[start:stop].max())
        for width in WIDTHS:
            *_, (last, view) = hub.views("q", "line", [0], start, stop, width)
            assert last
            assert view.exact
            assert len(view.time) <= 4 * width + 2 * SLICE + 2
            hand_over(page, "m4", view.time, view.value)
            how = {"width": width, "height": HEIGHT, "low": low, "high": high}
            differ, painted = page.evaluate(COMPARE, {**how, "origin": view.origin, "step": view.step})
            assert painted > width
            assert differ == 0
            shades, far, inked = page.evaluate(BY_UPLOT, {**how, "start": start, "end": stop})
            assert inked > width
            told.append(
                f"{width} px, {start:,} to {stop:,}: {differ} of {painted:,} pixels differ; "
                f"by uPlot {shades:,} in shade, {far:,} of them by more than half"
            )
    with capsys.disabled():
        print(f"\nM4 against {POINTS:,} points, {disorder:.0%} out of order:", *told, sep="\n  ")

"""Charts as SVG text: lines, bars and spans of time, without a library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 24, 34
COLOURS = ("#3366cc", "#dc7633", "#2e8b57", "#b03a8c", "#8a6d3b", "#4aa3a2", "#c0392b", "#6c5ce7")
Points = Sequence[tuple[float, float]]


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers within a range, about so many.

    >>> ticks(0, 9.3)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
    first = math.ceil(low / step)
    return [round(k * step, 10) for k in range(first, math.floor(high / step) + 1)]


def lines(series: Mapping[str, Points], unit: str, x_unit: str = "s") -> str:
    """Return a chart of lines, each with its name.

    >>> lines({"a": [(0, 1.0), (5, 3.0)]}, "m/s").count("<polyline")
    1
    """
    points = [point for some in series.values() for point in some]
    if not points:
        return _nothing()
    x_range = min(x for x, _ in points), max(x for x, _ in points)
    y_range = min(0.0, *(y for _, y in points)) if len(points) > 1 else 0.0, max(y for _, y in points)
    frame = _Frame(x_range, y_range)
    drawn = [frame.axes(unit, x_unit)]
    for k, (name, some) in enumerate(series.items()):
        colour = COLOURS[k % len(COLOURS)]
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in some)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        drawn.append(_legend(k, name, colour))
    return _svg(HEIGHT, drawn)


def bars(values: Mapping[str, float], unit: str) -> str:
    """Return a chart of horizontal bars, longest first."""
    if not values:
        return _nothing()
    ordered = sorted(values.items(), key=lambda item: -item[1])
    most = max(values.values()) or 1
    drawn = []
    for k, (name, value) in enumerate(ordered):
        y, long = 6 + 20 * k, (WIDTH - 200) * value / most
        drawn.append(f'<text x="92" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        drawn.append(f'<rect x="98" y="{y}" width="{long:.1f}" height="15" rx="2" fill="{COLOURS[0]}"/>')
        drawn.append(f'<text x="{104 + long:.1f}" y="{y + 12}">{value:,.0f} {escape(unit)}</text>')
    return _svg(12 + 20 * len(ordered), drawn)


def spans(rows: Mapping[str, Points], x_unit: str = "s") -> str:
    """Return a chart with a row for each name, and its stretches of time, (begin, end), in it."""
    edges = [edge for some in rows.values() for span in some for edge in span]
    if not edges:
        return _nothing()
    height = _TOP + _BOTTOM + 18 * len(rows)
    frame = _Frame((min(edges), max(edges)), (0, 1), height)
    drawn = [frame.bottom(x_unit)]
    for k, (name, some) in enumerate(rows.items()):
        y = _TOP + 18 * k
        drawn.append(f'<text x="{_LEFT - 6}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        for begin, end in some:
            where = f'x="{frame.x(begin):.1f}" width="{max(frame.x(end) - frame.x(begin), 1.5):.1f}"'
            drawn.append(f'<rect {where} y="{y + 2}" height="13" rx="2" fill="{COLOURS[k % len(COLOURS)]}"/>')
    return _svg(height, drawn)


class _Frame:
    """Where values lie on the picture."""

    def __init__(
        self, x_range: tuple[float, float], y_range: tuple[float, float], height: int = HEIGHT
    ) -> None:
        self._x, self._y, self._height = x_range, y_range, height

    def x(self, value: float) -> float:
        low, high = self._x
        return _LEFT + (value - low) / ((high - low) or 1) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return self._height - _BOTTOM - (value - low) / ((high - low) or 1) * (self._height - _TOP - _BOTTOM)

    def bottom(self, unit: str) -> str:
        base = self._height - _BOTTOM
        marks = [
            f'<line x1="{self.x(t):.1f}" x2="{self.x(t):.1f}" y1="{base}" y2="{base + 4}" class="axis"/>'
            f'<text x="{self.x(t):.1f}" y="{base + 17}" text-anchor="middle">{t:g} {escape(unit)}</text>'
            for t in ticks(*self._x, about=8)
        ]
        return _level(base, "axis") + "".join(marks)

    def axes(self, unit: str, x_unit: str) -> str:
        grid = [
            _level(self.y(t), "grid")
            + f'<text x="{_LEFT - 6}" y="{self.y(t) + 4:.1f}" text-anchor="end">{t:,g}</text>'
            for t in ticks(*self._y)
        ]
        return f'<text x="4" y="10">{escape(unit)}</text>' + "".join(grid) + self.bottom(x_unit)


def _level(y: float, kind: str) -> str:
    return f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'


def _legend(k: int, name: str, colour: str) -> str:
    x = _LEFT + 10 + 110 * k
    return (
        f'<rect x="{x}" y="3" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 14}" y="12">{escape(name)}</text>'
    )


def _svg(height: float, drawn: Sequence[str]) -> str:
    style = "text{font:11px sans-serif;fill:#444}.axis{stroke:#666}.grid{stroke:#ddd}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
        f"<style>{style}</style>{''.join(drawn)}</svg>"
    )


def _nothing() -> str:
    return _svg(30, ['<text x="4" y="18">no windows yet</text>'])

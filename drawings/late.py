"""Late data: records in the order of arrival, the watermark behind them, and what each of them changes."""

from __future__ import annotations

import muntin as mt
from drawings.canvas import ACCENT, INK, Canvas

TIMES = (2, 5, 11, 8, 14, 9, 19, 6, 12)
_LEFT, _RIGHT, _TOP, _STEP, _LAST = 70, 430, 70, 26, 20


def _x(t: float) -> float:
    return _LEFT + t * (_RIGHT - _LEFT) / _LAST


def lateness() -> str:
    """Return the drawing: each record by itself through an operator, with what comes out."""
    canvas = Canvas("Records in the order of arrival, the watermark, and what each changes")
    query = mt.tumbling(10).agg(n=mt.count())
    op = mt.WindowOperator(query, time="t", watermark=3, lateness=5)
    canvas.text(
        20, 24, "WindowOperator(tumbling(10).agg(n=count()), time='t', watermark=3, lateness=5)", "code"
    )
    for number, window in enumerate(((0, 10), (10, 20))):
        left, right = map(_x, window)
        canvas.box(left, _TOP - 16, right - left, len(TIMES) * _STEP + 10, ("#e0f2f1", "#e3f2fd")[number])
        canvas.text((left + right) / 2, _TOP - 24, f"[{window[0]}, {window[1]})", "small")
    dropped = 0
    for number, t in enumerate(TIMES):
        y = _TOP + number * _STEP
        before = op.watermark
        rows = op.process({"t": [t]}).to_pylist()
        gone, dropped = op.metrics.late_dropped > dropped, op.metrics.late_dropped
        late = before is not None and t < before
        canvas.text(34, y + 4, f"{number + 1}.", "small")
        fill, stroke = ("#ffffff", ACCENT) if gone else ("#ffccbc", ACCENT) if late else ("#eceff1", INK)
        canvas.dot(_x(t), y, t, fill, stroke)
        if before is not None and before >= 0:
            canvas.line(_x(before), y - _STEP / 2, _x(before), y + _STEP / 2, "accent")
        said = [f"{r['change']} [{r['window_start']}, {r['window_end']}) n={r['n']}" for r in rows]
        words = ["counts for nothing: dropped"] if gone else ["late, and counts"] if late else []
        canvas.text(_RIGHT + 20, y + 4, "; ".join([*words, *said]), "left")
    bottom = _TOP + len(TIMES) * _STEP + 4
    canvas.text(
        _LEFT,
        bottom + 12,
        "each line: a record as it arrives, and the watermark (dashed) at that moment",
        "small left",
    )
    return canvas.svg(bottom + 24)

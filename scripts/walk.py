"""Print the modules that a warm `process` call enters, in order: what a newcomer reads to follow a record.

`python scripts/walk.py` prints the walks; `--write` puts them into docs/internals.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import muntin as mt

PACKAGE = Path(mt.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "internals.md"
BEGIN, END = "<!-- walks: made by scripts/walk.py -->", "<!-- end of walks -->"
Call = Callable[[], Any]


def in_order() -> Call:
    """Return a call that takes in records in order: a tumbling sum."""
    op = mt.WindowOperator(mt.tumbling(10).agg(total=mt.sum("v")), time="ts")
    op.process({"ts": list(range(100)), "v": [1.0] * 100})
    op.process({"ts": list(range(100, 200)), "v": [1.0] * 100})
    return lambda: op.process({"ts": list(range(200, 300)), "v": [1.0] * 100})


def late_session() -> Call:
    """Return a call with a late record that corrects a session."""
    op = mt.WindowOperator(mt.session(5).agg(n=mt.count()), time="ts", watermark=10, lateness=100)
    op.process({"ts": [1, 2, 30, 60, 90]})
    op.process({"ts": [12, 100]})
    return lambda: op.process({"ts": [20, 101]})


def count_under_disorder() -> Call:
    """Return a call with records out of order for a count window."""
    query = mt.count_sliding(10, every=5).agg(total=mt.sum("v"))
    op = mt.WindowOperator(query, time="ts", watermark=5, lateness=50)
    op.process({"ts": list(range(0, 100, 2)), "v": [1.0] * 50})
    op.process({"ts": [95, 101], "v": [1.0, 1.0]})
    return lambda: op.process({"ts": [97, 103], "v": [1.0, 1.0]})


def sliding_median() -> Call:
    """Return a call that takes in records in order: a sliding median."""
    op = mt.WindowOperator(mt.sliding(60, every=10).agg(middle=mt.median("v")), time="ts")
    op.process({"ts": list(range(100)), "v": [float(t % 7) for t in range(100)]})
    op.process({"ts": list(range(100, 200)), "v": [float(t % 7) for t in range(100)]})
    return lambda: op.process({"ts": list(range(200, 300)), "v": [float(t % 7) for t in range(100)]})


SCENARIOS: dict[str, Callable[[], Call]] = {
    "an in-order tumbling sum": in_order,
    "a late record that corrects a session": late_session,
    "a count window under disorder": count_under_disorder,
    "a sliding median": sliding_median,
}


def walk(call: Call) -> list[tuple[int, str]]:
    """Return the modules that a call enters for the first time, in order, and how deep the first call was."""
    found: dict[str, int] = {}
    depth = 0

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        path = Path(frame.f_code.co_filename)
        if PACKAGE not in path.parents:
            return
        if event == "call":
            depth += 1
            found.setdefault(".".join(path.relative_to(PACKAGE).with_suffix("").parts), depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [(deep, module) for module, deep in found.items()]


def page() -> str:
    """Return the walks of all scenarios as Markdown."""
    lines = []
    for name, scenario in SCENARIOS.items():
        steps = walk(scenario())
        lines += [f"**{name[0].upper()}{name[1:]}**: {len(steps)} modules.", "", "```text"]
        lines += [f"{'  ' * min(deep - 1, 12)}{module}" for deep, module in steps]
        lines += ["```", ""]
    return "\n".join(lines)


def main() -> None:
    """Print the walks, or write them to the page."""
    text = page()
    if sys.argv[1:] == ["--write"]:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}{END}{after}")
    else:
        print(text)


if __name__ == "__main__":
    main()

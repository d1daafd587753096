"""The dashboard for Grafana asks for measures that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from muntin.dashboard.hub import Hub
from muntin.dashboard.measures import Measures
from tests.dashboard.pages import batch, operator

BOARD = Path(__file__).parents[2] / "examples" / "grafana" / "muntin.json"


def test_each_measure_and_label_is_served() -> None:
    board = json.loads(BOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(asked) >= 8
    op = operator()
    hub = Hub(op)
    hub.watch()
    op.process(batch([1, 4, 30]))
    hub.update()
    served = Measures({"cars": hub}).text().decode()
    names = {name for text in asked for name in re.findall(r"muntin_\w+", text)}
    only_of_timestamps = {"muntin_watermark_lag_seconds"}
    for name in names - only_of_timestamps:
        assert re.search(rf"^{name}\{{[^}}]*stream=\"cars\"", served, re.M), name
    assert re.search(r"^muntin_rows_total\{query=", served, re.M)
    assert re.search(r"^muntin_changes_total\{change=", served, re.M)

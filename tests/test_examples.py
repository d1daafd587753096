"""The examples do what they say."""

import importlib.util
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PRINTED = Path(__file__).parent / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_prints_what_it_did_before(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # one of them draws a picture
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out == (PRINTED / f"{path.stem}.txt").read_text()


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Trade:
    def __init__(self, price):
        self.price = price


def test_the_stock_monitor_reports_what_its_function_marks(tmp_path):
    stock = load("stock_monitor")
    table = stock.trades()
    times, prices, volumes = (table[name].to_numpy() for name in ("t", "price", "volume"))
    state, opened, want = stock.START, [], []
    for place, (t, price) in enumerate(zip(times.tolist(), prices.tolist(), strict=True)):
        state, begins, ends = stock.monitor(state, t, Trade(price))
        want += [(first, place) for first in opened[:ends]]
        opened = opened[ends:] + [place] * begins
    want += [(first, len(times)) for first in opened]
    rows = stock.reports(table)
    assert rows["window_id"].to_pylist() == list(range(len(want)))
    assert rows["window_start"].to_pylist() == [times[first] for first, _ in want]
    assert rows["window_end"].to_pylist() == [times[stop - 1] for _, stop in want]
    weighted = [np.average(prices[a:b], weights=volumes[a:b]) for a, b in want]
    np.testing.assert_allclose(rows["vwap"].to_numpy(), weighted)
    # As in the paper's figure, reports come more often, and over less, once the stock is cheap.
    spans = np.diff(rows["window_start"].to_numpy())
    assert set(np.round(spans / 60).tolist()) == {2.0, 5.0}
    stock.draw(table, rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000

"""Operators of every family of windows over every family of aggregates, and changes of their snapshots."""

from __future__ import annotations

import copy
import json
import math
import random
import re
import traceback
import warnings
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

import muntin as mt
from muntin.engine.state.envelope import pack, unpack
from muntin.windows import feature_window
from tests.aggregates import Affine, SumOfSquares, Union
from tests.user_functions import DISCRETIZERS

RECORDS = 24  # in a batch


class Tens(mt.ContextFreeWindow):
    """Tumbling windows of ten, as a user writes them."""

    def windows(self, t):
        return [(t // 10 * 10, t // 10 * 10 + 10)]

    def next_edge(self, t):
        return t // 10 * 10 + 10


class Around(mt.ContextAwareWindow):
    """From two before each record where p holds to three after it."""

    columns = ("p",)
    memory = 20

    def notify(self, edges, record):
        if record.p and (record.t - 2, record.t + 3) not in edges.windows:
            edges.add(record.t - 2, record.t + 3)


def keep_five(held):
    return max(0, len(held) - 5)


def every_third(held):
    return len(held) % 3 == 2


def user(name):
    discretizer = DISCRETIZERS[name]
    return mt.user_window(discretizer.function, state=discretizer.state, columns=list(discretizer.columns))


WINDOWS = {
    "tumbling": mt.tumbling(10),
    "sliding": mt.sliding(20, every=7),
    "cumulate": mt.cumulate(12, step=4),
    "own grid": Tens(),
    "session": mt.session(3),
    "count_tumbling": mt.count_tumbling(4),
    "count_sliding": mt.count_sliding(6, every=2),
    "rolling": mt.rolling(8),
    "rolling rows": mt.rolling(rows=4),
    "last_span": mt.last_span(9, every=3),
    "last_n": mt.last_n(5, every=4),
    "punctuation": mt.punctuation("p"),
    "punctuation to end": mt.punctuation("p", end="q"),
    "landmark": mt.landmark("p"),
    "landmark until": mt.landmark("p", until="q"),
    "landmark length": mt.landmark("p", length=11),
    "landmark every": mt.landmark("p", every=5),
    "landmark length every": mt.landmark("p", length=20, every=5),
    "feature": feature_window(mt.rolling(20), closed="left"),
    "feature by rows": feature_window(mt.rolling(rows=3), back=1),
    "feature to date": feature_window(mt.tumbling(15)),
    "threshold_frame": mt.threshold_frame("v", ">", 0, min_records=2),
    "delta_frame": mt.delta_frame("v", by=20.0),
    "delta_frame of integers": mt.delta_frame("w", by=20),
    "aggregate_frame": mt.aggregate_frame(mt.sum("v"), reaches=40.0),
    "aggregate_frame of decimals": mt.aggregate_frame(mt.sum("d"), reaches=40),
    "state_window": mt.state_window("s"),
    "state_window of integers": mt.state_window("w"),
    "on": mt.on("m", mt.sliding(10, every=5)),
    "user_window": user("twos_and_threes"),
    "user_window with columns": user("falls"),
    "policy_window": mt.policy_window(trigger=("every", 3), evict=("keep", 5)),
    "policy_window by value": mt.policy_window(trigger=("when", "p"), evict=("delta", "v", 30.0)),
    "policy_window of one's own": mt.policy_window(trigger=every_third, evict=keep_five, columns=["v"]),
    "context aware": Around(),
}
AGGREGATES = {
    "numbers": lambda: {
        "total": mt.sum("v"),
        "whole": mt.sum("w"),
        "top": mt.max("w"),
        "n": mt.count(),
        "spread": mt.variance("v"),
        "often": mt.max_count("w"),
        "times": mt.product("v"),
    },
    "pairs": lambda: {
        "line": mt.regression("v", "w"),
        "slope": mt.regression("v", "w", only="slope"),
        "both": mt.covariance("w", "u"),
        "decayed": mt.ewm("v", alpha=0.25),
        "rate": mt.rate("w"),
        "weighted": mt.weighted_mean("w", mt.expr("ABS(v)")),
    },
    "in order": lambda: {
        "first": mt.first("w"),
        "last": mt.last("v"),
        "where": mt.argmax("v", "w"),
        "m4": mt.m4("w"),
    },
    "nulls": lambda: {"total": mt.sum("u"), "low": mt.min("u"), "n": mt.count("u"), "m4": mt.m4("u")},
    "objects": lambda: {
        "last": mt.max("s"),
        "total": mt.sum("d"),
        "mean": mt.mean("d"),
        "with": mt.argmin("d", "s"),
    },
    "runs": lambda: {
        "median": mt.median("v"),
        "mode": mt.mode("w"),
        "distinct": mt.count_distinct("s"),
        "all": mt.collect_distinct("w"),
    },
    "lists": lambda: {"all": mt.collect("w"), "texts": mt.concat("s", sep=","), "of": mt.collect("s")},
    "sketches": lambda: {
        "about": mt.approx_count_distinct("s"),
        "half": mt.approx_quantile("v", 0.5),
        "often": mt.approx_top_k("s", 3),
        "whole": mt.approx_top_k("w", 3),
        "counts": mt.count_min_sketch("w"),
        "seen": mt.bloom_filter("w"),
    },
    "own": lambda: {"squares": SumOfSquares("v"), "affine": Affine("w"), "union": Union("w")},
}
SETTINGS = {
    "in order": {},
    "delay": {"watermark": 6},
    "late": {"watermark": 6, "lateness": 8},
    "tied": {"watermark": 6, "lateness": 5, "tie": "w"},
    "eager": {"watermark": 4, "store": "eager"},
    "manual": {"watermark": "manual", "lateness": 4},
}


def records(seed: int, begin: int, *, disorder: int) -> pa.Table:
    """Return some records of three keys from a time on."""
    rng = np.random.default_rng(seed)
    times = begin + np.sort(rng.integers(0, 30, RECORDS))
    order = np.argsort(times + rng.uniform(0, disorder, RECORDS), kind="stable") if disorder else slice(None)
    values, whole = rng.integers(-40, 40, RECORDS) / 2, rng.integers(-9, 9, RECORDS)
    columns = {
        "ts": times,
        "k": [f"key {k}" for k in rng.integers(0, 3, RECORDS)],
        "v": values,
        "w": whole,
        "u": [None if k % 4 == 0 else float(v) for k, v in enumerate(values)],
        "s": [f"text {k}" for k in rng.integers(0, 4, RECORDS)],
        "d": pa.array([Decimal(int(v * 2)) / 4 for v in values], pa.decimal128(6, 2)),
        "p": rng.integers(0, 4, RECORDS) == 0,
        "q": rng.integers(0, 4, RECORDS) == 0,
        "m": 2 * times,
    }
    return pa.table(columns).take(pa.array(np.arange(RECORDS)[order]))


@dataclass(frozen=True)
class Case:
    """An operator in the middle of a stream."""

    name: str
    queries: tuple[mt.Query, ...]
    setting: dict[str, Any]
    seed: int
    keyed: bool = True
    own: bool = field(default=False)  # something of the queries must be given

    def _batches(self) -> list[pa.Table]:
        disorder = 0 if not self.setting or self.setting.get("watermark") == "in_order" else 9
        return [records(self.seed + k, 30 * k, disorder=disorder) for k in range(3)]

    def blob(self) -> bytes:
        """Return a snapshot."""
        key = "k" if self.keyed else None
        operator = mt.WindowOperator(self.queries, time="ts", key=key, **self.setting)
        first, second, _ = self._batches()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            operator.process(first)
            if self.setting.get("watermark") == "manual":
                operator.advance(20)
            operator.process(second)
            if self.setting.get("watermark") == "manual":
                operator.advance(44)
        return operator.snapshot()

    def restored(self, blob: bytes) -> mt.WindowOperator:
        """Return the operator of a snapshot."""
        return mt.WindowOperator.restore(blob, self.queries if self.own else None)

    def run(self, operator: mt.WindowOperator) -> None:
        """Go on to the end of the stream, and look at all that can be looked at."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            last = self._batches()[-1]
            operator.process(last.slice(0, 1))
            operator.process(last.slice(1))
            operator.metrics  # noqa: B018
            operator.snapshot()
            operator.take_late()
            operator.finish()


def cases() -> list[Case]:
    """Return each window with each family of aggregates under a setting, and some with several queries."""
    found: list[Case] = []
    settings = list(SETTINGS)
    for window_name, window in WINDOWS.items():
        for k, (name, aggregates) in enumerate(AGGREGATES.items()):
            seed = len(found)
            setting = settings[(seed + k) % len(settings)]
            own = name == "own" or "own" in window_name or "user" in window_name or "aware" in window_name
            named = {f"{column}_{k}": a for column, a in aggregates().items()}
            query = window.agg(**named)
            case = Case(
                f"{window_name}, {name}, {setting}", (query,), SETTINGS[setting], seed, seed % 5 > 0, own
            )
            found.append(case)
    several = [
        mt.tumbling(10).agg(n=mt.count(), emit_empty=True, name="empty"),
        mt.sliding(15, every=5).agg(top=mt.max("w"), where="v > 0", name="some"),
        mt.session(4).agg(total=mt.sum("v"), having="total > 3", name="kept"),
        mt.count_sliding(5, every=2).agg(half=mt.median("v"), emit_partial=True, name="counts"),
        mt.rolling(rows=3).agg(last=mt.last("s"), where="v > 0", name="rolling"),
        mt.state_window("s").agg(n=mt.count(), name="states"),
    ]
    for setting in SETTINGS:
        found.append(Case(f"several, {setting}", tuple(several), SETTINGS[setting], len(found)))
    early = [
        mt.sliding(15, every=5).agg(top=mt.max("w"), having="top > 0", early=7, name="grid"),
        mt.session(4).agg(total=mt.sum("v"), early=9, name="visits"),
        mt.count_sliding(5, every=2).agg(half=mt.median("v"), emit_partial=True, early=5, name="counts"),
        mt.delta_frame("v", by=20.0).agg(n=mt.count(), early=5, having="n > 1", name="frames"),
        mt.last_n(5, every=4).agg(n=mt.count(), early=5, name="last"),
    ]
    for setting in SETTINGS:
        found.append(Case(f"early, {setting}", tuple(early), SETTINGS[setting], len(found)))
    changes = mt.tumbling(5).agg(n=mt.count(), top=mt.max("s"), all=mt.collect("w"), emit="on_change")
    found.append(Case("changes", (changes,), {"watermark": 3}, len(found)))
    return found


# ---- what may be changed ----

_NUMBERS = [0, 1, -1, 2, 7, 255, 2**31, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1, -(2**62), -(2**63), 10**12]
_WRONG = [None, "", "x", "0", [], {}, True, False, 1.5, math.nan, 2**63, 2**70, [[]], {"x": 1}, *_NUMBERS]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


def changed_tree(rng: random.Random, tree: Any) -> tuple[Any, str]:
    """Return a tree of JSON with one thing changed, and what that was."""
    tree = copy.deepcopy(tree)
    paths = [path for path in _paths(tree) if path]
    if not paths:
        return rng.choice(_WRONG), "a value"
    path = rng.choice(paths)
    at = tree
    for key in path[:-1]:
        at = at[key]
    old, how = at[path[-1]], rng.random()
    if how < 0.15:
        del at[path[-1]]
        return tree, f"{path} is gone"
    if how < 0.25 and isinstance(at, list):
        at.insert(path[-1], copy.deepcopy(old))
        return tree, f"{path} is there twice"
    if how < 0.45 and type(old) is int:
        at[path[-1]] = old + rng.choice([-2, -1, 1, 2, 100])
    elif how < 0.55 and len(paths) > 1:
        other = tree
        for key in rng.choice(paths):
            other = other[key]
        at[path[-1]] = copy.deepcopy(other)
    else:
        at[path[-1]] = rng.choice(_WRONG)
    return tree, f"{path} is {at[path[-1]]!r:.40}"


def _changed_values(rng: random.Random, values: list[Any], kind: pa.DataType) -> list[Any]:
    """Return the values of a column with one changed."""
    at = rng.randrange(len(values))
    value: Any = None
    if pa.types.is_integer(kind) and rng.random() < 0.95:
        near = [values[at] + step for step in (-3, -1, 1, 2)] if values[at] is not None else [0]
        bounds = np.iinfo(kind.to_pandas_dtype())
        value = min(
            max(rng.choice([*near, rng.choice(values) or 0, *_NUMBERS]), int(bounds.min)), int(bounds.max)
        )
    elif pa.types.is_floating(kind) and rng.random() < 0.95:
        value = rng.choice([0.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e308, 1e15])
    elif pa.types.is_boolean(kind):
        value = not values[at]
    elif pa.types.is_string(kind) and values[at] is not None:
        try:
            tree, _ = changed_tree(rng, [json.loads(values[at])])
            value = json.dumps(tree[0]) if isinstance(tree, list) and tree else "{"
        except ValueError:
            value = rng.choice(["", "x", values[at] + "x"])
    elif pa.types.is_large_binary(kind) and values[at]:
        blob = bytearray(values[at])
        for _ in range(rng.choice([1, 1, 3])):
            blob[min(len(blob) - 1, int(rng.expovariate(1 / 12)))] = rng.choice(
                [0, 1, 255, rng.randrange(256)]
            )
        value = bytes(blob[: rng.randrange(len(blob) + 1)]) if rng.random() < 0.3 else bytes(blob)
    elif pa.types.is_large_list(kind) and values[at] is not None:
        inner = list(values[at])
        how = rng.random()
        if inner and how < 0.5:
            inner = _changed_values(rng, inner, kind.value_type)
        elif inner and how < 0.7:
            inner = inner[1:] if how < 0.6 else inner[::-1]
        else:
            inner = [*inner, *(inner[:1] or [None])]
        value = inner
    return [*values[:at], value, *values[at + 1 :]]


def changed_table(rng: random.Random, table: pa.Table) -> tuple[pa.Table, str]:
    """Return a table with one thing changed, and what that was."""
    how = rng.random()
    if how < 0.12 and table.num_rows:
        begin = rng.randrange(table.num_rows)
        gone = rng.choice([1, 1, 1, table.num_rows])
        return pa.concat_tables([table.slice(0, begin), table.slice(begin + gone)]), f"row {begin} is gone"
    if how < 0.2 and table.num_rows:
        row = rng.randrange(table.num_rows)
        return pa.concat_tables([table, table.slice(row, 1)]), f"row {row} is there twice"
    if how < 0.28 and table.num_rows > 1:
        order = list(range(table.num_rows))
        rng.shuffle(order)
        return table.take(pa.array(order)), "rows are in another order"
    if not table.num_columns:
        return pa.table({"x": pa.nulls(rng.choice([1, 1000]))}), "a column"
    name = rng.choice(table.column_names)
    at, column = table.column_names.index(name), table[name]
    if how < 0.33:
        return table.drop_columns([name]), f"column {name!r} is gone"
    if how < 0.36:
        return table.append_column(name, column), f"column {name!r} is there twice"
    if how < 0.39:
        return table.rename_columns(
            [n + "x" if n == name else n for n in table.column_names]
        ), f"{name!r} renamed"
    if how < 0.5:
        kind = rng.choice(
            [pa.int32(), pa.float64(), pa.string(), pa.null(), pa.int64(), pa.bool_(), pa.uint8()]
        )
        try:
            cast = column.cast(kind)
        except pa.ArrowException:
            cast = pa.nulls(table.num_rows, kind)
        return table.set_column(at, name, cast), f"column {name!r} is {kind}"
    if not table.num_rows:
        return table.set_column(at, name, pa.nulls(0, pa.float32())), f"column {name!r} is float"
    values = _changed_values(rng, column.to_pylist(), column.type)
    try:
        made = pa.array(values, column.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        made = pa.nulls(table.num_rows, column.type)
    return table.set_column(at, name, made), f"column {name!r} has another value"


def changed(rng: random.Random, blob: bytes) -> tuple[bytes, str]:
    """Return a snapshot with one thing changed and a checksum that fits, and what was changed."""
    described, tables = unpack(blob)
    how = rng.random()
    if how < 0.45:
        described, what = changed_tree(rng, described)
        return pack(described, tables), what
    name = rng.choice(list(tables))
    if name == "answers" and "own" in json.dumps(described["queries"]):
        name = "time"  # nobody can tell what type the answers of one's own functions have
    if how < 0.5:
        return pack(described, {n: t for n, t in tables.items() if n != name}), f"table {name!r} is gone"
    if how < 0.54:
        other = rng.choice(list(tables))
        return pack(described, {**tables, name: tables[other]}), f"table {name!r} is {other!r}"
    table, what = changed_table(rng, tables[name])
    return pack(described, {**tables, name: table}), f"table {name!r}: {what}"


# What a run may say of a stream that does not fit a state which may well have been.
_SAID = re.compile(
    "left the 64-bit range|in the first batch and is|stream was ended by finish|goes back to|"
    "the batch has no column|does not fit decimal| raised |windows where|give the column a type"
)
_THEIRS = ("tests/aggregates.py", "tests/user_functions.py", "tests/snapshot_cases.py")


def about_the_stream(error: Exception) -> bool:
    """Tell whether an error is one that users know, or comes out of a function of their own."""
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    return bool(_SAID.search(str(error))) or innermost.endswith(_THEIRS)

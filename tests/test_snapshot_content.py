"""Snapshots with a checksum that fits and a content that does not: refused, or a run like others."""

import hashlib
import json
import random
import signal
import struct

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.state.description import SnapshotError
from muntin.engine.state.envelope import decode, decode_text, encode, pack, unpack
from tests.snapshot_cases import about_the_stream, cases, changed

CASES = cases()
EACH = 2  # changes of each snapshot


def blob_of(*queries, key="k", **setting):
    """Return a snapshot of an operator with a few records."""
    operator = mt.WindowOperator(queries, time="ts", key=key, **setting)
    operator.process({"ts": [1, 4, 6, 12], "k": ["a", "b", "a", "a"], "v": [1.0, 2.0, 3.0, 4.0]})
    return operator.snapshot()


def with_description(blob, path, value):
    """Return a snapshot with another value at a path of its description; `...` removes it."""
    described, tables = unpack(blob)
    at = described
    for name in path[:-1]:
        at = at[name]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return pack(described, tables)


def with_column(blob, table, column, values):
    """Return a snapshot with another column in one of its tables; None removes it."""
    described, tables = unpack(blob)
    at = tables[table].column_names.index(column)
    changed_table = tables[table].remove_column(at)
    if values is not None:
        changed_table = changed_table.add_column(at, column, values)
    return pack(described, {**tables, table: changed_table})


def refuses(blob, match=None):
    """Check that a snapshot is refused in one sentence."""
    with pytest.raises(SnapshotError, match=match) as caught:
        mt.WindowOperator.restore(blob)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.fixture(scope="module")
def tumbling():
    return blob_of(mt.tumbling(10).agg(total=mt.sum("v")), watermark=5, lateness=5)


# ---- descriptions ----


def test_each_value_of_a_description_is_needed(tumbling):
    described, _ = unpack(tumbling)
    for name in described.keys() - {"where", "lanes"}:  # which older snapshots lack
        refuses(with_description(tumbling, [name], ...), f"lacks '{name}'")
    for name in described["engine"].keys() - {"last_shown"}:
        refuses(with_description(tumbling, ["engine", name], ...), f"lacks '{name}'")
    for name in described["engine"]["plan"]:
        refuses(with_description(tumbling, ["engine", "plan", name], ...), f"lacks '{name}'")


@pytest.mark.parametrize("value", ["x", 1.5, [], {"x": 1}, 2**70, -(2**63)])
def test_values_of_other_types(tumbling, value):
    described, _ = unpack(tumbling)
    for name in ("watermark", "largest", "plan", "waiting", "answers", "revisions", "spans", "combines"):
        if type(described["engine"][name]) is not type(value) or isinstance(value, (int, dict)):
            refuses(with_description(tumbling, ["engine", name], value))


def test_numbers_that_would_take_all_memory(tumbling):
    """Tables are as long as the largest number of a query: this one took 4 TiB."""
    path = ["engine", "plan", "queries", 0, 0]
    refuses(with_description(tumbling, path, 10**12), "queries.0..0. is 1000000000000, not a whole number")
    blob = with_description(tumbling, ["engine", "plan", "next"], [2**40, 2**40])
    refuses(with_description(blob, path, 2**40 - 1))


def test_fields_that_do_not_serve_their_aggregates(tumbling):
    fields = ["engine", "plan", "fields", 0]
    for at, value in ((1, "max"), (1, "none"), (2, ["k"]), (2, ["v", "v"]), (2, []), (3, True), (0, 7)):
        refuses(with_description(tumbling, [*fields, at], value))
    reads = ["engine", "plan", "queries", 0, 3, 0, 1]
    for value in ([], [[0, 1]], [[0, -1]], [[1, 0]], [[0, 0], [0, 0]], [[0]]):
        refuses(with_description(tumbling, reads, value))
    refuses(with_description(tumbling, ["engine", "plan", "forms"], {"0": "object"}))


def test_queries_that_cannot_be_made(tumbling):
    query = ["queries", 0, 1]
    for value in (["sliding", {}], ["Query", {}], ["base", {}], ["tumbling", {"length": {"value": -1}}], []):
        refuses(with_description(tumbling, [*query, "window"], value))
    aggregate = [*query, "aggregates", 0, 1]
    for value in ({}, {"name": "fuse", "columns": ["v"], "parameters": {}}, {"own": []}):
        refuses(with_description(tumbling, aggregate, value))
    refuses(with_description(tumbling, [*aggregate, "parameters"], {"ddof": 3}))


# ---- tables ----


def test_each_table_and_column_is_needed(tumbling):
    described, tables = unpack(tumbling)
    for name, table in tables.items():
        refuses(pack(described, {n: t for n, t in tables.items() if n != name}))
        for column in table.column_names:
            if name != "answers":  # which types follow from others
                refuses(with_column(tumbling, name, column, None))


@pytest.mark.parametrize("code", [-1, 2, 10**12, -(2**63), 2**63 - 1])
def test_codes_of_keys_that_are_not_there(tumbling, code):
    """The largest of these asked for 8 TiB; a compiled loop would have written where others point."""
    refuses(
        with_column(tumbling, "grid", "code", pa.array([0, 1, code])), r"table 'grid' has -?\d+ in column"
    )


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("start", [0, 0, 5]),  # no edge
        ("start", [0, 0, 0]),  # twice
        ("start", [0, 0, 2**62]),
        ("first", [1, 4, 13]),  # after the last record
        ("last", [6, 4, 20]),  # in the next slice
        ("rows", [2, 1, 0]),
        ("rows", [2, 1, -1]),
        ("rows", [2, 1, 2**63 - 1]),
    ],
)
def test_cells_that_cannot_be(tumbling, column, values):
    refuses(with_column(tumbling, "grid", column, pa.array(values, pa.int64())))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0, 2.0, 3.0], pa.float32()),
        pa.array([1, 2, 3]),
        pa.array(["1", "2", "3"]),
        pa.array([1.0, None, 3.0]),
        pa.nulls(3),
        pa.array([[1.0], [2.0], [3.0]]),
    ],
)
def test_columns_of_other_types(tumbling, column):
    refuses(with_column(tumbling, "grid", "0.0", column), "table 'grid' has ")


def test_a_table_that_claims_rows_without_bytes(tumbling):
    described, tables = unpack(tumbling)
    refuses(pack(described, {**tables, "keys": pa.table({"k": pa.nulls(10**9)})}), "more rows than bytes")


def test_offsets_of_texts_that_lead_elsewhere():
    """Arrow itself does not look at them until it reads a text from somewhere in memory."""
    blob = blob_of(mt.tumbling(10).agg(n=mt.count()))
    body = blob[52:]  # behind the head
    offsets = np.array([0, 1, 2], np.int32).tobytes()
    at = body.rindex(offsets, 0, body.index(b"ab\0\0\0\0\0\0"))  # those of the keys "a" and "b"
    for wrong in ([0, 2**20, 2**30], [0, -5, 2], [2, 1, 0]):
        torn = body[:at] + np.array(wrong, np.int32).tobytes() + body[at + len(offsets) :]
        refuses(resealed(torn), "table 'keys' is no Arrow table")


def test_slices_that_would_be_split_into_more_records_than_there_are():
    """As many records as a slice is said to have were looked for."""
    blob = blob_of(mt.last_n(3, every=10).agg(total=mt.sum("v")), key=None, watermark=5)
    rows = unpack(blob)[1]["position 0 store"]["rows"].to_pylist()
    for wrong in (rows[-1] + 1, 10**9, 2**62 - 1):
        column = pa.array([*rows[:-1], wrong])
        refuses(with_column(blob, "position 0 store", "rows", column), "table 'position 0 store'")


def test_rows_of_keys_that_are_not_there():
    """The next key went on at a position of one of them, in slices that were not there."""
    blob = blob_of(mt.count_tumbling(4).agg(n=mt.count()))
    described, tables = unpack(blob)
    table = tables["count 0 positions"].slice(0, 2)
    more = pa.concat_tables([table, table, table])
    operator = mt.WindowOperator.restore(pack(described, {**tables, "count 0 positions": more}))
    rows = operator.process({"ts": [13, 14, 15, 16], "k": ["c"] * 4, "v": [5.0, 6.0, 7.0, 8.0]})
    assert rows.column("n").to_pylist() == [4]


def test_slices_that_are_missing():
    """Records were looked for in the slice before: an IndexError once that was split."""
    blob = blob_of(mt.last_n(3, every=10).agg(total=mt.sum("v")), key=None, watermark=5)
    described, tables = unpack(blob)
    store = tables["position 0 store"]
    for gone in range(store.num_rows):
        fewer = pa.concat_tables([store.slice(0, gone), store.slice(gone + 1)])
        refuses(pack(described, {**tables, "position 0 store": fewer}), "position 0 store")


def test_windows_of_a_measure_that_are_open_twice():
    """Two of the same were compared with one of each: an IndexError."""
    blob = blob_of(mt.on("v", mt.sliding(4, every=2)).agg(n=mt.count()), key=None, watermark=3, lateness=3)
    described, tables = unpack(blob)
    opened = tables["position 0 open 0"]
    assert opened.num_rows
    twice = pa.concat_tables([opened, opened.slice(opened.num_rows - 1)])
    refuses(pack(described, {**tables, "position 0 open 0": twice}), "has the same twice")
    highest = pa.array([opened["window"][0].as_py() - 1])
    refuses(with_column(blob, "position 0 lister 0", "highest.0", highest), "a window that has not begun")


def test_lists_and_runs():
    blob = blob_of(mt.tumbling(10).agg(half=mt.median("v"), all=mt.collect("v")), watermark=5, lateness=5)
    _, tables = unpack(blob)
    counts = next(name for name in tables["grid"].column_names if name.endswith(".counts"))
    runs = counts.replace("counts", "values")
    kind = pa.large_list(pa.int64())
    assert tables["grid"][runs].to_pylist() == [[1.0, 3.0], [2.0], [4.0]]
    for values in ([0, 1], [-5, 1], [9, 1], [1], [1, 1, 1], [None, 1]):
        refuses(
            with_column(blob, "grid", counts, pa.array([values, [1], [1]], kind)), "table '(grid|.*counts)'"
        )
    for values in ([3.0, 1.0], [1.0, 1.0], [1.0, None], [1.0, 2.0, 3.0]):
        column = pa.array([values, [2.0], [4.0]], pa.large_list(pa.float64()))
        refuses(with_column(blob, "grid", runs, column), "table 'grid'")


def test_sketches():
    pytest.importorskip("datasketches")
    query = mt.tumbling(10).agg(half=mt.approx_quantile("v"), often=mt.approx_top_k("v", 2))
    operator = mt.WindowOperator([query], time="ts", watermark=5)
    operator.process({"ts": [1] * 300, "v": np.arange(300.0)})
    blob = operator.snapshot()
    _, tables = unpack(blob)
    for name in ("0", "1"):
        (whole,) = tables["grid"][name].to_pylist()
        for at in range(24):  # one of them led the library out of its memory
            for byte in (0, 1, 255):
                torn = whole[:at] + bytes([byte]) + whole[at + 1 :]
                try:
                    restored = mt.WindowOperator.restore(
                        with_column(blob, "grid", name, pa.array([torn], pa.large_binary()))
                    )
                except SnapshotError:
                    continue
                restored.finish()
        for torn in (whole[:9], whole[:-8], b"", b"\0", b"\0f1234567", b"\0i" + bytes(8)):
            refuses(with_column(blob, "grid", name, pa.array([torn], pa.large_binary())))


# ---- what must not be refused ----


def goes_on(operator, *batches):
    """Check that an operator that is restored goes on as the one that was written."""
    queries = [query for _, query in operator._queries]
    other = mt.WindowOperator.restore(operator.snapshot(), queries)
    for batch in batches:
        assert other.process(batch).equals(operator.process(batch))
    assert other.finish().equals(operator.finish())


def test_records_from_before_a_query_was_there_have_nulls_for_it():
    setting = {"time": "ts", "watermark": 5, "lateness": 5}
    operator = mt.WindowOperator([mt.tumbling(10).agg(a=mt.first("v"), name="a")], **setting)
    operator.process({"ts": [1, 4, 12], "v": [1, 2, 3], "w": [4, 5, 6], "s": ["x", "y", "z"]})
    operator.add(mt.tumbling(10).agg(b=mt.last("w"), c=mt.first("s"), name="b"))
    operator.process({"ts": [13, 14], "v": [1, 2], "w": [1, 2], "s": ["u", "v"]})
    goes_on(operator, {"ts": [11, 30], "v": [7, 8], "w": [7, 8], "s": ["x", "y"]})


def test_slices_that_begin_before_the_first_time():
    operator = mt.WindowOperator([mt.sliding(1000, every=300).agg(n=mt.count())], time="ts", watermark=5)
    operator.process({"ts": [1 - 2**62, 2 - 2**62]})
    goes_on(operator, {"ts": [2**62 - 1]})


def test_measures_of_keys_that_only_wait():
    operator = mt.WindowOperator(
        [mt.on("m", mt.sliding(4, every=2)).agg(n=mt.count())], time="ts", key="k", watermark=5, lateness=2
    )
    operator.process({"ts": [1, 9, 9], "k": ["a", "b", "a"], "m": [-(2**61), 3, 4]})
    goes_on(operator, {"ts": [12, 20], "k": ["b", "a"], "m": [5, 6]})


def open_at_first(state, t, row):
    """Open a window at the first record, and never close it."""
    return 1, 1 - state, 0


def test_a_stream_that_has_ended():
    window = mt.user_window(open_at_first, state=0, columns=["v"])
    operator = mt.WindowOperator([window.agg(n=mt.count())], time="ts", watermark=2)
    operator.process({"ts": [1, 4, 6], "v": [1.0, 2.0, 3.0]})
    operator.finish()
    goes_on(operator)


def test_records_of_slices_that_may_be_split_have_no_ties():
    operator = mt.WindowOperator(
        [mt.last_n(3, every=10).agg(total=mt.sum("v"))], time="ts", watermark=2, tie="v"
    )
    operator.process({"ts": [1, 4, 4, 12, 15], "v": [1, 2, 3, 4, 5]})
    goes_on(operator, {"ts": [14, 27], "v": [7, 8]})


class Halves(mt.ContextFreeWindow):
    """The first five of every ten."""

    def windows(self, t):
        return [(t // 10 * 10, t // 10 * 10 + 5)] if t % 10 < 5 else []

    def next_edge(self, t):
        return t // 5 * 5 + 5


def test_slices_outside_of_all_windows_begin_anywhere():
    operator = mt.WindowOperator([Halves().agg(n=mt.count())], time="ts", watermark=9)
    for t in (8, 7, 6, 12):
        operator.process({"ts": [t]})
    goes_on(operator, {"ts": [7, 30]})


NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
)


@pytest.mark.parametrize(
    "column",
    [
        NOT_UTF8,
        pa.StructArray.from_arrays([NOT_UTF8], ["word"]),
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), NOT_UTF8),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), NOT_UTF8),
        pa.array([0, 5]).view(pa.date64()),
        pa.array([0, 10**6], pa.int32()).view(pa.time32("s")),
        pa.array([b"\x7f" * 16] * 2, pa.binary(16)).view(pa.decimal128(3)),
    ],
    ids=lambda column: str(column.type),
)
def test_late_records_with_values_that_their_types_do_not_have(column):
    """Arrow takes them in; nobody looks at them, and they are given back as they came."""
    operator = mt.WindowOperator([mt.tumbling(10).agg(n=mt.count())], time="ts", watermark=0)
    operator.process(pa.table({"ts": [100, 0], "other": column}))
    late = mt.WindowOperator.restore(operator.snapshot()).take_late()["other"].chunk(0)
    assert late.type == column.type
    assert late.buffers()[-1].to_pybytes() in column.buffers()[-1].to_pybytes()


def test_late_records_with_two_columns_of_a_name_or_many_in_few_bytes():
    count = 20_000
    times = pa.RunEndEncodedArray.from_arrays(pa.array([1, count + 1], pa.int32()), pa.array([100, 0]))
    for table in (pa.table({"ts": times}), pa.table([pa.array([100, 0])] * 3, ["ts", "x", "x"])):
        operator = mt.WindowOperator([mt.tumbling(10).agg(n=mt.count())], time="ts", watermark=0)
        operator.process(table)
        restored = mt.WindowOperator.restore(operator.snapshot())
        assert restored.take_late().num_rows == len(table) - 1


# ---- values, and the envelope ----


@pytest.mark.parametrize(
    "value",
    [
        *(1.5, [1], {}, {"x": 1}, {"int": 1, "float": 2}, {"tuple": 3}, {"dict": [[1]]}, {"dict": [[[], 1]]}),
        *({"float": "x"}, {"float": 3}, {"bytes": 7}, {"decimal": "x"}, {"decimal": "sNaN"}, {"date": "x"}),
        *({"array": []}, {"array": ["O", [1], ""]}, {"array": ["<f8", [2**40], ""]}, {"timedelta": [10**30]}),
        *({"set": [{"list": []}]}, {"expression": "1 +"}, {"array": ["V8", [1], "AAAAAAAAAAA="]}),
    ],
)
def test_values_that_are_none(value):
    with pytest.raises(SnapshotError, match="which is none"):
        decode(value)
    with pytest.raises(SnapshotError):
        decode_text(json.dumps(value))


def test_values_that_are_no_json():
    deep = encode(1)
    for _ in range(5000):
        deep = {"list": [deep]}
    with pytest.raises(SnapshotError):
        decode(deep)
    for text in ("", "{", "[" * 100_000, "1" * 5000):
        with pytest.raises(SnapshotError, match="which is no"):
            decode_text(text)


def resealed(body):
    """Return a body as a snapshot whose length and checksum fit."""
    head = struct.pack("<8sIQ32s", b"MUNTIN\x00\x01", 1, len(body), hashlib.sha256(body).digest())
    return head + body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00" * 7,
        (2**63 - 1).to_bytes(8, "little"),
        (2).to_bytes(8, "little") + b"{}",
        (1).to_bytes(8, "little") + b"{",
        (31).to_bytes(8, "little") + b'{"description": {}, "tables": 1}'[:31],
        *(
            len(text).to_bytes(8, "little") + text + b"rest"
            for text in (
                b'{"description": {}, "tables": []}',
                b'{"description": {}, "tables": [["keys", 4]]}',
                b'{"description": {}, "tables": [["keys", -4]]}',
                b'{"description": {}, "tables": [["keys", 4000000000000]]}',
                b'{"description": {}, "tables": [["keys"]]}',
                b'{"description": [], "tables": []}',
            )
        ),
    ],
)
def test_envelopes_that_do_not_hold_what_they_say(body):
    refuses(resealed(body), "holds what muntin would not have written")


# ---- any change of any snapshot ----


def outcome(case, blob):
    """Return what comes of a snapshot: "refused" in one sentence, "ran", or what went wrong."""
    try:
        operator = case.restored(blob)
    except SnapshotError as error:
        one = "\n" not in str(error) and str(error).endswith(".")
        return "refused" if one else f"says {error}"
    try:
        case.run(operator)
    except Exception as error:
        theirs = case.own and isinstance(error, pa.ArrowInvalid)  # an answer of one's own of two types
        return "ran" if theirs or about_the_stream(error) else f"breaks off: {error!r}"
    return "ran"


def take_too_long(*_):
    raise TimeoutError("this takes too long")


@pytest.mark.parametrize("part", range(8))
def test_one_thing_is_changed(part):
    """Change one thing in snapshots of operators of every kind."""
    before = signal.signal(signal.SIGALRM, take_too_long)
    found = {}
    try:
        for case in CASES[part::8]:
            blob = case.blob()
            for number in range(EACH):
                other, what = changed(random.Random(f"{case.name} {number}"), blob)
                signal.alarm(60)
                found[case.name, number, what] = outcome(case, other)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert not {who: what for who, what in found.items() if what not in ("refused", "ran")}
    assert list(found.values()).count("refused") > 20
    assert list(found.values()).count("ran") > 5

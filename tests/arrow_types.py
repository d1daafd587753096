"""A column of each of Arrow's types and layouts, four values long."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa

WORDS = ["a", "b" * 20, None, "d"]
LISTS = [["a"], ["b" * 20, None], None, []]


def _runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), values)


def _dictionary(values: pa.Array, indices: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], indices), values)


class Notes(pa.ExtensionType):
    """Texts under another name."""

    def __init__(self) -> None:
        super().__init__(pa.string_view(), "tests.notes")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Notes:
        del storage, serialized
        return cls()


pa.register_extension_type(Notes())
VIEWS = pa.array(["x", "y"], pa.string_view())
CATEGORICAL = _dictionary(VIEWS, pa.uint32())  # as those of polars are

COLUMNS: dict[str, pa.Array] = {
    "texts": pa.array(WORDS),
    "views": pa.array(WORDS, pa.string_view()),
    "views of bytes": pa.array([b"a", b"b" * 20, None, b"d"], pa.binary_view()),
    "runs": _runs(pa.array(["x", "y"])),
    "runs of views": _runs(VIEWS),
    "runs of a dictionary": _runs(pa.array(["x", "y"]).dictionary_encode()),
    "dictionary": _dictionary(pa.array(["x", "y"]), pa.int8()),
    "categorical": CATEGORICAL,
    "dictionary of nulls": pa.nulls(4).dictionary_encode(),
    "dictionary of lists": _dictionary(pa.array([["x"], ["y"]], pa.list_(pa.string_view())), pa.int32()),
    "lists of views": pa.array(LISTS, pa.list_(pa.string_view())),
    "large lists of views": pa.array(LISTS, pa.large_list(pa.string_view())),
    "pairs of views": pa.array(
        [["a", "b"], ["c" * 20, None], None, ["d", "e"]], pa.list_(pa.string_view(), 2)
    ),
    "list views": pa.array(LISTS, pa.list_view(pa.string())),
    "list views of views": pa.array(LISTS, pa.list_view(pa.string_view())),
    "structs of views": pa.array(
        [{"x": "a"}, None, {"x": None}, {"x": "d"}], pa.struct({"x": pa.string_view()})
    ),
    "structs of layouts": pa.StructArray.from_arrays([CATEGORICAL, _runs(VIEWS)], ["c", "r"]),
    "maps of views": pa.array([[("a", 1)], [], None, [("b", 2)]], pa.map_(pa.string_view(), pa.int64())),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()),
        [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", "d"], pa.string_view())],
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2]), VIEWS]
    ),
    "nulls": pa.nulls(4),
    "extension": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([bytes([k] * 16) for k in range(4)], pa.binary(16))
    ),
    "extension of views": pa.ExtensionArray.from_storage(
        Notes(), pa.array(["1", "2", None, "3"], pa.string_view())
    ),
    "half floats": pa.array(np.arange(4, dtype=np.float16)),
    "intervals": pa.array([pa.MonthDayNano([k, 2, 3]) for k in range(4)]),
    "wide decimals": pa.array([decimal.Decimal(k) for k in range(4)], pa.decimal256(50, 2)),
}

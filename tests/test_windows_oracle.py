"""The oracle itself, on examples worked out by hand from the semantics page.

Each example draws its records as a line of times and what matters of each, and says which windows must come
out: as (start, end, id, the `w` of the records in it), where `w` numbers the records from 0.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.oracle_grids import grid_windows
from tests.window_kinds import WINDOWS, records, specs, with_measures
from tests.window_types import Record, Row, Spec
from tests.windows_oracle import Oracle, one_shot

NAN = math.nan
LISTED = {"ws": ("collected", "w")}


def query(kind: str, *params: Any, **options: Any) -> Spec:
    return Spec("q", kind, params, LISTED, **options)


def stream(times: list[int], **columns: list[Any]) -> list[Record]:
    """A record per time, numbered in `w`; `p=[0, 1]` gives the records these values in column `p`."""
    flags = {name: name in ("p", "q") for name in columns}
    return [
        Record(t, w=place)._replace(
            **{
                name: bool(c[place]) if flags[name] and c[place] is not None else c[place]
                for name, c in columns.items()
            }
        )
        for place, t in enumerate(times)
    ]


def shown(rows: list[Row]) -> list[tuple]:
    return [(row.start, row.end, row.id, row.values["ws"]) for row in rows]


def told(rows: list[Row]) -> list[tuple]:
    return [(row.change, row.revision, row.start, row.end, row.id, row.values["ws"]) for row in rows]


def all_of(spec: Spec, taken: list[Record]) -> list[tuple]:
    return shown(one_shot([spec], taken))


# ---- time grids ----


def seconds(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("unit", "tz", "moment", "start", "end"),
    [
        ("day", "UTC", (2024, 2, 29, 23, 59), (2024, 2, 29), (2024, 3, 1)),
        ("week", "UTC", (2024, 3, 3), (2024, 2, 26), (2024, 3, 4)),  # a Sunday; weeks begin on Monday
        ("month", "UTC", (2024, 2, 29), (2024, 2, 1), (2024, 3, 1)),
        ("quarter", "UTC", (2024, 5, 5), (2024, 4, 1), (2024, 7, 1)),
        ("year", "UTC", (1969, 6, 1), (1969, 1, 1), (1970, 1, 1)),
        # Summer time: the day in March has 23 hours, the one in October 25.
        ("day", "Europe/Berlin", (2024, 3, 31, 12), (2024, 3, 30, 23), (2024, 3, 31, 22)),
        ("day", "Europe/Berlin", (2024, 10, 27, 12), (2024, 10, 26, 22), (2024, 10, 27, 23)),
        # No midnight: on 2018-11-04 clocks went from 00:00 to 01:00, which is 03:00 UTC.
        ("day", "America/Sao_Paulo", (2018, 11, 4, 12), (2018, 11, 4, 3), (2018, 11, 5, 2)),
        # 2011-12-30 was left out in Samoa: the 29th ends when the 31st begins.
        ("day", "Pacific/Apia", (2011, 12, 30, 9), (2011, 12, 29, 10), (2011, 12, 30, 10)),
        ("day", "Pacific/Apia", (2011, 12, 30, 10), (2011, 12, 30, 10), (2011, 12, 31, 10)),
        # At 00:01 on 2010-11-07 clocks went back to 23:01: the day that had begun goes on.
        ("day", "America/St_Johns", (2010, 11, 7, 2, 40), (2010, 11, 7, 2, 30), (2010, 11, 8, 3, 30)),
    ],
)
def test_calendar(unit: str, tz: str, moment: tuple, start: tuple, end: tuple) -> None:
    t = seconds(*moment)
    want = [(seconds(*start), seconds(*end))]
    assert grid_windows(query("calendar", unit, tz, "s"), t) == want
    in_ms = grid_windows(query("calendar", unit, tz, "ms"), t * 1000 + 1)
    assert in_ms == [(want[0][0] * 1000, want[0][1] * 1000)]


def test_calendar_windows_are_emitted_at_their_end_and_empty_ones_on_demand() -> None:
    day = 86400
    oracle = Oracle([query("calendar", "day", "UTC", "s", emit_empty=True)])
    assert shown(oracle.process(stream([5, day - 1]))) == []
    assert shown(oracle.process(stream([3 * day]))) == [
        (0, day, None, [0, 1]),
        (day, 2 * day, None, None),
        (2 * day, 3 * day, None, None),
    ]


def test_own_windows() -> None:
    #   [0, 3) and [2, 10) of every ten
    spec = query("own", 10, ((0, 3), (2, 10)))
    assert all_of(spec, stream([-1, 2, 5, 13])) == [
        (-8, 0, None, [0]),
        (0, 3, None, [1]),
        (2, 10, None, [1, 2]),
        (12, 20, None, [3]),
    ]


# ---- by record ----


def test_rolling_ends_with_each_record_and_numbers_those_of_one_time() -> None:
    #   0    3  3    8      (t - 5, t]
    assert all_of(query("rolling", 5), stream([0, 3, 3, 8])) == [
        (-5, 0, 0, [0]),
        (-2, 3, 0, [0, 1]),
        (-2, 3, 1, [0, 1, 2]),
        (3, 8, 0, [3]),
    ]


def test_rolling_rows() -> None:
    assert all_of(query("rolling_rows", 2), stream([0, 3, 3, 8])) == [
        (0, 0, 0, [0]),
        (0, 3, 0, [0, 1]),
        (3, 3, 1, [1, 2]),
        (3, 8, 0, [2, 3]),
    ]


def test_a_late_record_renumbers_and_corrects_rolling_windows() -> None:
    oracle = Oracle([query("rolling", 5)], policy=0, lateness=5)
    assert told(oracle.process(stream([0, 4]))) == [
        ("insert", 0, -5, 0, 0, [0]),
        ("insert", 0, -1, 4, 0, [0, 1]),
    ]
    assert told(oracle.process([Record(2, w=7)])) == [
        ("insert", 0, -3, 2, 0, [0, 7]),
        ("update", 1, -1, 4, 0, [0, 7, 1]),
    ]


def test_last_span_at_every_second_record() -> None:
    assert all_of(query("last_span", 4, 2), stream([0, 3, 3, 8, 9])) == [
        (-1, 3, 0, [0, 1]),
        (4, 8, 1, [3]),
    ]


def test_last_n_at_steps_that_have_records() -> None:
    #   1 2 | 6 | (10, 15: none) | 17        the last two before 5, 10 and 20
    spec = query("last_n", 2, 5)
    assert all_of(spec, stream([1, 2, 6, 17])) == [
        (1, 5, None, [0, 1]),
        (2, 10, None, [1, 2]),
        (6, 20, None, [2, 3]),
    ]
    oracle = Oracle([spec], policy="manual", lateness=20)
    oracle.process(stream([1, 2, 6]))
    assert told(oracle.advance(10)) == [
        ("insert", 0, 1, 5, None, [0, 1]),
        ("insert", 0, 2, 10, None, [1, 2]),
    ]
    # A late record moves the last two of both.
    assert told(oracle.process([Record(3, w=9)])) == [
        ("update", 1, 2, 5, None, [1, 9]),
        ("update", 1, 3, 10, None, [9, 2]),
    ]


# ---- by what records say ----


def test_punctuation_lasts_to_just_before_the_next() -> None:
    #   0  1  2  3  4        record 0 is before the first, null is false
    spec = query("punctuation", "p", None)
    taken = stream([0, 1, 2, 3, 4], p=[0, 1, None, 1, 0])
    assert all_of(spec, taken) == [(1, 2, 0, [1, 2]), (3, 4, 1, [3, 4])]
    oracle = Oracle([spec])
    assert shown(oracle.process(taken[:3])) == []
    assert shown(oracle.process(taken[3:4])) == [(1, 2, 0, [1, 2])]  # W >= t of the record that ends it


def test_punctuation_with_an_end() -> None:
    #   0  1  2  3  4  5
    #   (     (  )     )     both windows end before 3; nothing is open at 4; 5 ends nothing
    spec = query("punctuation", "p", "q")
    taken = stream([0, 1, 2, 3, 4, 5], p=[1, 0, 1, 0, 0, 0], q=[0, 0, 0, 1, 0, 1])
    assert all_of(spec, taken) == [(0, 2, 0, [0, 1, 2]), (2, 2, 1, [2])]
    both = stream([0, 1, 2], p=[1, 1, 0], q=[0, 1, 0])  # 1 ends the first window and opens the second
    assert all_of(spec, both) == [(0, 0, 0, [0]), (1, 2, 1, [1, 2])]


def test_a_late_punctuation_cuts_a_window_and_renumbers_the_rest() -> None:
    oracle = Oracle([query("punctuation", "p", None)], policy=0, lateness=9)
    oracle.process(stream([0, 2, 4, 6], p=[1, 0, 1, 1]))
    assert told(oracle.process([Record(1, w=9, p=True)])) == [
        ("update", 1, 0, 0, 0, [0]),
        ("update", 1, 1, 2, 1, [9, 1]),
        ("insert", 0, 4, 4, 2, [2]),
    ]


def test_landmarks() -> None:
    #   1  2  6  7  11
    #   L     L  U
    taken = stream([1, 2, 6, 7, 11], p=[1, 0, 1, 0, 0], q=[0, 0, 0, 1, 0])
    assert all_of(query("landmark", "p"), taken) == [(1, 2, 0, [0, 1]), (6, 11, 1, [2, 3, 4])]
    assert all_of(query("landmark_until", "p", "q"), taken) == [(1, 6, 0, [0, 1, 2]), (6, 6, 1, [2])]
    assert all_of(query("landmark_length", "p", 6), taken) == [(1, 7, 0, [0, 1, 2]), (6, 12, 1, [2, 3, 4])]


def test_cumulative_landmarks() -> None:
    #   1  2 | 6  7 | 11       at 5, 10 and 15 all since the last landmark
    #   L    | L  U |
    taken = stream([1, 2, 6, 7, 11], p=[1, 0, 1, 0, 0], q=[0, 0, 0, 1, 0])
    first, second, third = (1, 5, None, [0, 1]), (6, 10, None, [2, 3]), (6, 15, None, [2, 3, 4])
    assert all_of(query("landmark_every", "p", 5), taken) == [first, second, third]
    assert all_of(query("landmark_until_every", "p", "q", 5), taken) == [first]
    assert all_of(query("landmark_length_every", "p", 5, 5), taken) == [first, second]
    oracle = Oracle([query("landmark_every", "p", 5)])
    assert shown(oracle.process(taken)) == [first, second]
    assert shown(oracle.advance(15)) == [third]


def test_threshold_frames_of_at_least_two_records() -> None:
    #   5  6 | 0 | 7 | NaN | 8  9 | null     7 alone takes no number
    taken = stream([0, 1, 2, 3, 4, 5, 6, 7], v=[5.0, 6.0, 0.0, 7.0, NAN, 8.0, 9.0, None])
    assert all_of(query("threshold_frame", "v", ">", 4, 2), taken) == [(0, 1, 0, [0, 1]), (5, 6, 1, [5, 6])]
    assert all_of(query("threshold_frame", "v", "!=", 0, 1), taken) == [
        (0, 1, 0, [0, 1]),
        (3, 3, 1, [3]),
        (5, 6, 2, [5, 6]),
    ]


def test_a_late_record_cuts_a_threshold_frame() -> None:
    oracle = Oracle([query("threshold_frame", "v", ">", 4, 2)], policy=0, lateness=9)
    assert told(oracle.process(stream([0, 2, 4, 6], v=[5.0, 5.0, 5.0, 0.0]))) == [
        ("insert", 0, 0, 4, 0, [0, 1, 2])
    ]
    assert told(oracle.process([Record(1, v=0.0, w=9)])) == [("update", 1, 2, 4, 0, [1, 2])]
    assert told(oracle.process([Record(3, v=None, w=8)])) == [("retract", 2, 2, 4, 0, None)]


def test_delta_frames() -> None:
    #   null | 1  3  NaN  null | 4  1        by 2 from the frame's first
    taken = stream([0, 1, 2, 3, 4, 5, 6], v=[None, 1.0, 3.0, NAN, None, 4.0, 2.0])
    assert all_of(query("delta_frame", "v", 2), taken) == [(1, 4, 0, [1, 2, 3, 4]), (5, 6, 1, [5, 6])]


def test_aggregate_frames_end_with_the_record_that_reaches() -> None:
    #   null | 2  null  3 | null | 7 | 1
    taken = stream([0, 1, 2, 3, 4, 5, 6], v=[None, 2.0, None, 3.0, None, 7.0, 1.0])
    spec = query("aggregate_frame", ("sum", "v"), 5)
    want = [(1, 3, 0, [1, 2, 3]), (5, 5, 1, [5]), (6, 6, 2, [6])]
    assert all_of(spec, taken) == want
    oracle = Oracle([spec])
    assert shown(oracle.process(taken)) == want[:2]  # with the record itself; the open one at the end
    assert shown(oracle.finish()) == want[2:]
    assert all_of(query("aggregate_frame", ("count",), 3), taken[:5]) == [
        (0, 2, 0, [0, 1, 2]),
        (3, 4, 1, [3, 4]),
    ]


def test_state_windows() -> None:
    taken = stream([0, 1, 2, 3, 4, 5], s=[None, None, 0.0, -0.0, NAN, NAN])
    assert all_of(query("state_window", "s"), taken) == [
        (0, 1, 0, [0, 1]),
        (2, 3, 1, [2, 3]),
        (4, 5, 2, [4, 5]),
    ]


# ---- over another measure ----


def test_windows_over_a_measure() -> None:
    #   t  0  1  2  3
    #   m  0  4  4  11        [0, 5) is ended by the record at 11
    spec = query("on", "m", "tumbling", (5, 0))
    taken = stream([0, 1, 2, 3], m=[0, 4, 4, 11])
    oracle = Oracle([spec])
    assert oracle.process(taken[:3]) == []
    (row,) = oracle.process(taken[3:])
    assert (row.start, row.end, row.id, row.measures, row.values["ws"]) == (0, 2, None, (0, 5), [0, 1, 2])
    (row,) = oracle.finish()
    assert (row.start, row.end, row.measures, row.values["ws"]) == (3, 3, (10, 15), [3])
    sliding = one_shot([query("on", "m", "sliding", (4, 2, 0))], stream([0, 1, 2], m=[0.5, 2.5, 3.5]))
    assert [(row.measures, row.values["ws"]) for row in sliding] == [
        ((-2, 2), [0]),
        ((0, 4), [0, 1, 2]),
        ((2, 6), [1, 2]),
    ]


def test_a_measure_that_goes_back_is_an_error() -> None:
    with pytest.raises(ValueError, match="m goes back"):
        one_shot([query("on", "m", "tumbling", (5, 0))], stream([0, 1], m=[3, 2]))


def test_a_query_over_a_measure_that_was_added_later_leaves_out_what_it_may_not_have_seen_whole() -> None:
    oracle = Oracle([query("count_tumbling", 1)])
    oracle.process(stream([0], m=[1]))
    oracle.add(Spec("late", "on", ("m", "tumbling", (5, 0)), LISTED))
    rows = oracle.process(stream([1, 2, 3], m=[3, 6, 12]))
    assert [row.measures for row in rows if row.query == "late"] == [(5, 10)]


# ---- by the user's own functions ----


def test_user_windows_begin_with_a_record_and_end_before_one() -> None:
    # Five records every two: windows begin at the records 0, 2, 4, ... and end before 5, 7, ...
    spec = query("user_window", "five_by_two")
    oracle = Oracle([spec])
    assert shown(oracle.process(stream([0, 1, 2, 3, 4]))) == []
    assert shown(oracle.process([Record(5, w=5)])) == [(0, 4, 0, [0, 1, 2, 3, 4])]
    assert shown(oracle.finish()) == [(2, 5, 1, [2, 3, 4, 5]), (4, 5, 2, [4, 5])]


def test_several_user_windows_begin_and_end_at_once() -> None:
    # Two begin at 0 and two at 3; before 4, three of them end.
    spec = query("user_window", "twos_and_threes")
    assert all_of(spec, stream([0, 1, 2, 3, 4])) == [
        (0, 3, 0, [0, 1, 2, 3]),
        (0, 3, 1, [0, 1, 2, 3]),
        (3, 3, 2, [3]),
        (3, 4, 3, [3, 4]),
    ]


@pytest.mark.parametrize(
    "kind", [("user_window", "five_by_two"), ("policy_window", ("every", 1), ("keep", 2))]
)
def test_user_and_policy_windows_are_final(kind: tuple) -> None:
    """They see a record once t <= W - L, so that a late one finds its place before they do."""
    oracle = Oracle([query(*kind)], policy=0, lateness=4)
    oracle.process(stream([0, 4]))
    rows = (
        oracle.process([Record(2, w=9)]) + oracle.process([Record(4, w=8), Record(9, w=7)]) + oracle.finish()
    )
    assert {row.change for row in rows} == {"insert"}
    assert all(row.revision == 0 for row in rows)
    longest = max((row.values["ws"] for row in rows), key=len)
    assert longest == ([0, 9, 1, 8, 7] if kind[0] == "user_window" else [0, 9])


def test_a_tie_holds_user_windows_back_until_their_time_has_passed() -> None:
    oracle = Oracle([query("policy_window", ("every", 1), ("keep", 1))], tie=True)
    assert oracle.process([Record(3, w=1, tie=5)]) == []
    assert shown(oracle.process([Record(3, w=0, tie=1), Record(4, w=2)])) == [(3, 3, 0, [0]), (3, 3, 1, [1])]


def test_policy_windows_are_what_eviction_left() -> None:
    taken = stream([0, 1, 5, 6, 7], p=[0, 0, 1, 0, 1], v=[1.0, 2.0, 3.0, 9.0, 8.0])
    when = ("when", "p")
    assert all_of(query("policy_window", when, ("keep", 3)), taken) == [
        (0, 5, 0, [0, 1, 2]),
        (5, 7, 1, [2, 3, 4]),
    ]
    assert all_of(query("policy_window", when, ("within", 3)), taken) == [
        (5, 5, 0, [2]),
        (5, 7, 1, [2, 3, 4]),
    ]
    assert all_of(query("policy_window", when, ("delta", "v", 2)), taken) == [
        (0, 5, 0, [0, 1, 2]),
        (6, 7, 1, [3, 4]),
    ]
    assert all_of(query("policy_window", ("every", 2), when), taken) == [(0, 1, 0, [0, 1]), (5, 6, 1, [2, 3])]


# ---- what holds for all ----


@st.composite
def streams(draw: st.DrawFn) -> list[Record]:
    drawn = draw(st.lists(records([("a",), (None,)], range(4), [0]), max_size=25))
    clock, stamped = 0, []
    for gap, record in drawn:
        clock += gap
        stamped.append(record._replace(t=clock))
    return with_measures(stamped)


@pytest.mark.parametrize("kind", list(WINDOWS))
def test_in_order_nothing_is_corrected_and_cuts_do_not_matter(kind: str) -> None:
    @given(st.data())
    def run(data: st.DataObject) -> None:
        spec = data.draw(specs("q", [kind]))
        taken = data.draw(streams())
        oracle = Oracle([spec])
        rows = [row for record in taken for row in oracle.process([record])] + oracle.finish()
        assert {row.change for row in rows} <= {"insert"}

        def key(row: Row) -> str:
            return str((row.key, row.start, row.end, row.id, row.measures, row.values))

        assert sorted(map(key, rows)) == sorted(map(key, one_shot([spec], taken)))

    run()

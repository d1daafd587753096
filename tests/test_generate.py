"""Generated streams: the same for the same seed, and like the recordings that they stand for."""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import muntin.generate as gen
from muntin.generate.chance import normal, uniform

SMALL = {
    "football": gen.Football(seconds=30, hertz=20, seed=3),
    "factory": gen.Factory(seconds=30, machines=3, seed=3),
    "stocks": gen.Stocks(seconds=30, symbols=3, seed=3),
}


def micros(table):
    return table["ts"].cast(pa.int64()).to_numpy()


def behind(table):
    times = micros(table)
    return np.maximum.accumulate(times) - times


# ---- chance ----


def test_numbers_are_even_and_independent_of_where_a_stretch_begins():
    drawn = uniform(1, "a", np.arange(100_000))
    assert 0 <= drawn.min() < drawn.max() < 1
    assert np.histogram(drawn, 20)[0].std() < 150
    assert np.array_equal(drawn[500:700], uniform(1, "a", np.arange(500, 700)))
    for other in (
        uniform(2, "a", np.arange(100_000)),
        uniform(1, "b", np.arange(100_000)),
        np.roll(drawn, 1),
    ):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.02


def test_normal_numbers():
    drawn = normal(1, "a", np.arange(100_000))
    assert abs(drawn.mean()) < 0.02
    assert drawn.std() == pytest.approx(1, abs=0.02)
    assert (np.abs(drawn) > 2).mean() == pytest.approx(0.0455, abs=0.005)


# ---- all of them ----


@pytest.mark.parametrize("recording", SMALL.values(), ids=SMALL)
def test_any_stretch_is_what_it_is_in_the_whole(recording):
    whole, times, numbers = recording.between(0, recording.length)
    assert whole.schema == recording.schema
    assert (np.diff(times) >= 0).all()
    assert np.array_equal(numbers, np.arange(len(whole)))
    edges = [0, 1, 1_000_000, 5_432_109, 11_000_000, 13_000_000, recording.length, recording.length + 10**7]
    parts = [recording.between(a, b)[0] for a, b in itertools.pairwise(edges)]
    assert pa.concat_tables(parts).equals(whole)
    assert whole.equals(dataclasses.replace(recording).between(0, recording.length)[0])


@pytest.mark.parametrize("recording", SMALL.values(), ids=SMALL)
def test_arrivals_of_stretches_make_up_those_of_the_whole(recording):
    arrivals = gen.Arrivals(recording, seed=8)
    whole = arrivals.table()
    edges = [0, 700_000, 700_001, 12_345_678, arrivals.length, arrivals.length + 1]
    parts = [arrivals.between(a, b) for a, b in itertools.pairwise(edges)]
    assert pa.concat_tables(parts).equals(whole)
    assert whole.num_rows == recording.between(0, recording.length)[0].num_rows
    assert -0.02 < (behind(whole) > 0).mean() - recording.disorder < 0.01
    assert 1_900_000 < behind(whole).max() <= 2_000_000
    assert not behind(gen.Arrivals(recording, disorder=0).table()).any()


@pytest.mark.parametrize("recording", SMALL.values(), ids=SMALL)
def test_another_seed_is_another_stream(recording):
    other = dataclasses.replace(recording, seed=4)
    assert not other.between(0, 10**6)[0].equals(recording.between(0, 10**6)[0])


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="at least one machine"):
        gen.Factory(machines=0)
    with pytest.raises(ValueError, match="at least one record a second"):
        gen.Football(hertz=0)
    with pytest.raises(ValueError, match="a share between 0 and 1, not 20"):
        gen.Arrivals(gen.Factory(), disorder=20)
    with pytest.raises(ValueError, match="delay is 'soon', which is no duration"):
        gen.Arrivals(gen.Factory(), delay="soon")


# ---- football ----


def test_the_rates_of_a_match():
    match = gen.Football(seconds=60)
    assert match.rate == 15_600
    table, times, _ = match.between(0, match.length)
    assert len(table) == 15_600 * 60 * 10.5 / 12
    silences = np.diff(times)
    assert (silences > 1_000_000).sum() == 4  # a fifth comes at the end
    assert silences[silences > 1_000_000] == pytest.approx(1_500_000, abs=100)
    counts = table.group_by("sensor").aggregate([("ts", "count")]).to_pydict()
    assert len(counts["sensor"]) == 42
    by_sensor = dict(zip(counts["sensor"], counts["ts_count"], strict=True))
    assert {by_sensor.pop(ball) for ball in (4, 8, 10, 12)} == {2_000 * 52.5}
    assert set(by_sensor.values()) == {200 * 52.5}


def test_the_ranges_of_a_match():
    match = gen.Football(seconds=120, hertz=25, seed=2)
    table = match.between(0, match.length)[0]
    players = table.filter(table["team"].is_valid())
    assert len(players["player"].unique()) == 16
    assert 1 < pc.mean(players["speed"]).as_py() < 3
    assert 5 < pc.max(players["speed"]).as_py() < 10
    assert 0 < pc.min(players["x"]).as_py() < pc.max(players["x"]).as_py() < 52.483
    assert 0 < pc.min(players["y"]).as_py() < pc.max(players["y"]).as_py() < 67.925
    ways = players.group_by("player").aggregate([("step", "sum")])["step_sum"].to_numpy()
    assert ((100 < ways) & (ways < 500)).all()
    ball = table.filter(pc.equal(table["sensor"], 4))
    assert 10 < pc.max(ball["speed"]).as_py() < 60
    others = table.filter(pc.is_in(table["sensor"], pa.array([8, 10, 12], pa.int32())))
    assert pc.max(others["speed"]).as_py() == 0


def test_speed_is_the_derivative_of_the_position():
    match = gen.Football(seconds=10, hertz=100)
    table = match.between(0, match.length)[0]
    sensor = table.filter(pc.equal(table["sensor"], 20))
    moved = np.hypot(np.diff(sensor["x"].to_numpy()[::10]), np.diff(sensor["y"].to_numpy()[::10]))
    way = sensor["speed"].to_numpy()[: 10 * len(moved)].reshape(-1, 10).mean(axis=1) * 0.1
    assert moved == pytest.approx(way, abs=0.06)


def test_the_way_of_a_player_never_goes_back():
    match = gen.Football(seconds=60, hertz=40, seed=4)
    table = match.between(0, match.length)[0]
    players = table.filter(table["team"].is_valid())
    for player in players["player"].unique().to_pylist():
        mine = players.filter(pc.equal(players["player"], player))
        way, stamps = mine["way"].to_numpy(), mine["ts"].cast(pa.int64()).to_numpy()
        assert (np.diff(way[np.argsort(stamps, kind="stable")]) >= 0).all()
        active = way[-1] - way[0] - np.diff(way)[np.diff(stamps) > 1_000_000].sum()  # without silent spells
        assert active == pytest.approx(pc.sum(mine["step"]).as_py(), rel=0.03)
    part, whole = match.between(20_000_000, 21_000_000)[0], match.between(0, 30_000_000)[0]
    there = pc.is_in(whole["ts"], part["ts"])
    assert whole.filter(there)["way"].to_pylist() == part["way"].to_pylist()


def test_one_player_has_the_ball_and_the_ball_is_at_his_foot():
    match = gen.Football(seconds=60, hertz=50)
    table = match.between(0, match.length)[0]
    held = table.filter(table["has_ball"])
    share = held.num_rows / table.filter(table["team"].is_valid()).num_rows
    assert 0.01 < share < 0.05  # one of sixteen, two fifths of the time
    ball = pc.equal(table["sensor"], 4).to_numpy(zero_copy_only=False)
    shoe_of_holder = np.flatnonzero(table["has_ball"].to_numpy(zero_copy_only=False))[5:-5]
    nearest = np.searchsorted(np.flatnonzero(ball), shoe_of_holder)
    at = np.flatnonzero(ball)[nearest]
    apart = np.hypot(
        table["x"].to_numpy()[at] - table["x"].to_numpy()[shoe_of_holder],
        table["y"].to_numpy()[at] - table["y"].to_numpy()[shoe_of_holder],
    )
    assert np.median(apart) < 1


# ---- factory ----


def test_the_rates_and_ranges_of_a_factory():
    factory = gen.Factory(seconds=170)
    table, times, _ = factory.between(0, factory.length)
    assert len(table) == 17_000
    assert set(np.diff(times)) == {10_000}
    for name, mean, most in [("mf01", 13_053, 18_300), ("mf02", 14_378, 20_400), ("mf03", 8_089, 11_500)]:
        power = table[name].to_numpy()
        assert power.mean() == pytest.approx(mean, rel=0.01)
        assert 1.15 * mean < power.max() < most
        assert power.min() > 0.9 * mean
    assert np.corrcoef(table["mf01"].to_numpy(), table["mf02"].to_numpy())[0, 1] > 0.9
    assert pc.mean(table["pc14"]).as_py() == pytest.approx(189.9, abs=0.5)


@pytest.mark.parametrize(("sensor", "valve"), [("bm05", "bm08"), ("bm06", "bm09"), ("bm07", "bm10")])
def test_a_valve_follows_its_sensor(sensor, valve):
    table = gen.Factory(seconds=200).between(0, 200_000_000)[0]
    rises = [
        np.flatnonzero(np.diff(table[name].to_numpy(zero_copy_only=False).astype(int)) == 1)
        for name in (sensor, valve)
    ]
    lags = (rises[1] - rises[0][: len(rises[1])]) / 100
    assert len(lags) >= 24
    assert 0.1 <= lags.min() < lags.max() <= 0.6


# ---- files ----


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_files_are_recordings(tmp_path, ending):
    path = tmp_path / f"cars.{ending}"
    stamps = ["2026-01-01 00:00:05", "2026-01-01 00:00:01", "2026-01-01 00:00:03"]
    if ending == "csv":
        path.write_text("ts,v\n" + "".join(f"{stamp},{k}\n" for k, stamp in enumerate(stamps)))
    elif ending == "json":
        path.write_text("".join(f'{{"ts": "{stamp}", "v": {k}}}\n' for k, stamp in enumerate(stamps)))
    else:
        from pyarrow import parquet

        parquet.write_table(pa.table({"ts": pa.array(stamps).cast(pa.timestamp("ms")), "v": [0, 1, 2]}), path)
    recording = gen.Stored(path, time="ts")
    assert recording.length == 4_000_001
    assert recording.schema.field("ts").type == pa.timestamp("us", "UTC")
    table, times, numbers = recording.between(1, recording.length)
    assert (table["v"].to_pylist(), times.tolist(), numbers.tolist()) == (
        [2, 0],
        [2_000_000, 4_000_000],
        [1, 2],
    )


def test_a_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_text("ts,v\n2026-01-01 00:00:05,1\n")
    assert gen.Stored(path, time="ts").length == 1
    path.write_text("ts,v\n2026-01-01 00:00:05,1\n2026-01-01 00:00:06,1\n")
    assert gen.Stored(path, time="ts").length == 1_000_001


@pytest.mark.parametrize(
    ("name", "text", "error", "said"),
    [
        ("cars.txt", "", ValueError, "ends in .csv, .json, .jsonl, .parquet"),
        ("cars.csv", None, FileNotFoundError, "there is no file"),
        ("cars.csv", "t,v\n1,2\n", ValueError, "has no column 'ts'; it has t, v"),
        ("cars.csv", "ts,v\n1,2\n", TypeError, "'ts' holds int64, but the pace needs timestamps"),
        ("cars.csv", "ts,v\n2026-01-01 00:00:05,1\n,2\n", ValueError, "'ts' is null in row 1"),
    ],
)
def test_files_that_cannot_be_replayed(tmp_path, name, text, error, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=said):
        gen.Stored(tmp_path / name, time="ts")


# ---- stocks ----


def test_prices_wander_and_volumes_burst():
    table, times, _ = gen.Stocks(seconds=3600, symbols=2, seed=1).between(0, 3_600_000_000)
    assert table.num_rows == 36_000
    assert len(np.unique(times)) == 36_000
    for symbol in ("AAA", "AAB"):
        mine = table.filter(pc.equal(table["symbol"], symbol))
        prices, volumes = mine["price"].to_numpy(), mine["volume"].to_numpy()
        assert 0.005 < np.std(prices) / np.mean(prices) < 0.1
        assert np.abs(np.diff(prices) / prices[1:]).max() < 0.02
        assert volumes.min() >= 1
        assert np.quantile(volumes, 0.99) > 8 * np.median(volumes)

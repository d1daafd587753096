"""Rolling features for machine learning over a pandas frame, without a look into the future.

Shops report their turnover by the day, with days missing. For each day and shop, features are computed over
the rows up to that day: means of the last week and month, the spread, the best day, a median. They predict
the next day's turnover by least squares. That nothing leaks is checked, too: features of a frame that ends
earlier are the same as those of the whole one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import muntin as mt

FEATURES = {
    "week": mt.rolling("7d").agg(mt.mean("turnover")),
    "days": mt.rolling("7d").agg(mt.count()),
    "month": mt.rolling("28d").agg(mt.mean("turnover")),
    "spread": mt.rolling("28d").agg(mt.stddev("turnover")),
    "best": mt.rolling("28d").agg(mt.max("turnover")),
    "middle": mt.rolling("28d").agg(mt.median("turnover")),
    "week_ago": mt.rolling(rows=7).agg(mt.first("turnover")),  # the first of the last seven rows
}


def turnover(shops: int = 5, days: int = 200, seed: int = 11) -> pd.DataFrame:
    """Return the turnover of each shop and day: a level that drifts, a weekly pattern, noise, and gaps."""
    rng = np.random.default_rng(seed)
    frames = []
    for shop in range(shops):
        level = 100 + 20 * shop + np.cumsum(rng.normal(0, 2, days))
        weekly = 25 * np.sin(2 * np.pi * np.arange(days) / 7 + shop)
        frame = pd.DataFrame(
            {
                "ts": pd.date_range("2026-01-01", periods=days),
                "shop": f"shop {shop + 1}",
                "turnover": np.round(level + weekly + rng.normal(0, 8, days), 2),
            }
        )
        frames.append(frame[rng.random(days) > 0.05])
    return pd.concat(frames, ignore_index=True)


def features(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row of features for each row of the frame, by shop and day."""
    rows = mt.features(frame, FEATURES, time="ts", key="shop")
    return rows.set_index(["shop", "ts"])[list(FEATURES)].sort_index()


def errors(frame: pd.DataFrame, table: pd.DataFrame) -> dict[str, float]:
    """Return how far off predictions of the next day are, in the last quarter of the time."""
    known = frame.set_index(["shop", "ts"])["turnover"].sort_index()
    following = known.groupby("shop").shift(-1)
    usable = following.notna() & table.notna().all(axis=1)
    past = usable & (table.index.get_level_values("ts") < pd.Timestamp("2026-06-01"))
    future = usable & ~past
    inputs = np.column_stack([np.ones(len(table)), known, table])
    weights, *_ = np.linalg.lstsq(inputs[past], following[past].to_numpy(), rcond=None)
    wanted = following[future].to_numpy()
    return {
        "tomorrow as today": float(np.abs(known[future].to_numpy() - wanted).mean()),
        "tomorrow as the week": float(np.abs(table["week"][future].to_numpy() - wanted).mean()),
        "least squares over all features": float(np.abs(inputs[future] @ weights - wanted).mean()),
    }


def main() -> None:
    """Print some features, the check for leaks, and what they are good for."""
    frame = turnover()
    table = features(frame)
    print(f"{len(frame)} rows, {len(FEATURES)} features each\n")
    print(table.groupby("shop").tail(1).round(1).to_string())
    earlier = frame[frame["ts"] < pd.Timestamp("2026-04-01")]
    cut = features(earlier)
    same = bool(np.allclose(cut, table.loc[cut.index], equal_nan=True))
    print(f"\nThe {len(cut)} rows before April have the same features without the rows after them: {same}")
    print("\nMean error of the next day's turnover")
    for name, error in errors(frame, table).items():
        print(f"  {name:32} {error:5.1f}")


if __name__ == "__main__":
    main()

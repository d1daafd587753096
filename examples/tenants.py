"""Several tenants share one stream, and add and remove their queries while it runs.

One operator serves all. A new query reports the windows that it sees whole, a removed one is silent from then
on, and nobody else's results change: at the end, each tenant's rows are compared with those of an operator
that most of the others never came to. A record joins one slice, however many queries share it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import muntin as mt

MINUTE = 60
# Who comes when (in minutes), with what, and when they leave.
TENANTS: dict[str, tuple[int, Any, int | None]] = {
    "operations": (0, mt.tumbling(5 * MINUTE).agg(requests=mt.count(), worst=mt.max("ms")), None),
    "billing": (0, mt.cumulate(60 * MINUTE, step=20 * MINUTE).agg(bytes=mt.sum("bytes")), None),
    "incident": (22, mt.sliding(2 * MINUTE, every=MINUTE).agg(p99=mt.quantile("ms", 0.99)), 38),
    "audit": (30, mt.count_tumbling(500).agg(mean=mt.mean("ms")), 50),
}


def requests(minutes: int = 60, seed: int = 8) -> pa.Table:
    """Return made-up requests in the order of their times; between minutes 25 and 35 they are slow."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, minutes * MINUTE, minutes * 120))
    slow = (times >= 25 * MINUTE) & (times < 35 * MINUTE)
    took = rng.integers(5, 80, len(times)) * np.where(slow, 6, 1)
    return pa.table({"t": times, "ms": took, "bytes": rng.integers(200, 9_000, len(times))})


def named(tenant: str) -> mt.Query:
    """Return a tenant's query under the tenant's name."""
    query = TENANTS[tenant][1]
    result: mt.Query = query.window.agg(name=tenant, **query.aggregates)
    return result


def run(table: pa.Table, tenants: list[str], always: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all rows, and a line about each minute at which somebody came or went."""
    op = mt.WindowOperator(named(always), time="t")
    rows: list[dict[str, Any]] = []
    log: list[str] = []
    minutes = table["t"].to_numpy() // MINUTE
    for minute in range(int(minutes[-1]) + 1):
        for tenant in tenants:
            comes, _, leaves = TENANTS[tenant]
            if tenant != always and minute == comes:
                op.add(named(tenant))
                log.append(f"{minute:3} min  + {tenant:10}  {op.metrics.slices:4} slices live")
            if minute == leaves:
                op.remove(tenant)
                log.append(f"{minute:3} min  - {tenant:10}  {op.metrics.slices:4} slices live")
        first, last = np.searchsorted(minutes, [minute, minute + 1])
        rows += op.process(table.slice(first, last - first)).to_pylist()
    rows += op.finish().to_pylist()
    return rows, log


def main() -> None:
    """Print who came and went, what each got, and whether the others made a difference."""
    table = requests()
    rows, log = run(table, list(TENANTS), "operations")
    print(f"{table.num_rows:,} requests\n")
    print("\n".join(log))
    print("\ntenant       windows  last one                  the same without the others")
    for tenant in TENANTS:
        own = [row for row in rows if row["query"] == tenant]
        without, _ = run(table, [tenant, "operations"], "operations")
        columns = ["window_start", "window_end", *TENANTS[tenant][1].aggregates]
        mine, theirs = (
            [[r[c] for c in columns] for r in some if r["query"] == tenant] for some in (own, without)
        )
        last = ", ".join(f"{name} {own[-1][name]:,.0f}" for name in TENANTS[tenant][1].aggregates)
        print(f"{tenant:12} {len(own):7}  {last:24}  {mine == theirs}")


if __name__ == "__main__":
    main()

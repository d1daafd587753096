"""What an operator decided for its queries, and why: as words and as a dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muntin.slicing.engine import Engine
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.workload import Decisions, together
from muntin.windows.durations import Clock, in_words

_STORES = {
    "lazy": "each window is folded from its slices when it ends",
    "eager": "a FlatFAT per key is kept up to date: few combines per window and per late record",
    "sliding": "prefixes where there is an inverse, two stacks per query elsewhere",
    "auto": "windows of few slices one by one, else prefixes where there is an inverse, two stacks per query "
    "for up to 16 queries elsewhere, else pairs of slices, pairs of pairs and so on",
}


_WHERE = "where their windows begin and end"


class Explanation(str):
    """A text for people; `as_dict()` has the same for programs."""

    __slots__ = ("_facts",)
    _facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return what the text says, as data."""
        return self._facts


def explain(engine: Engine, watermark: str, lateness: str, store: str) -> Explanation:
    """Return what was decided and why."""
    facts = {
        "stream": {"watermark": watermark, "lateness": lateness, "in_order": engine.slices.in_order},
        "queries": [_query(engine, planned) for planned in engine.plan.queries],
        "fields": [str(plan) for plan in engine.plan.fields.values()],
        "decisions": _decisions(engine, together(engine.slices.decisions.values()), engine.plan.fields),
        "slices": _slices(engine),
        "store": {"name": store, "how": _STORES[store]},
        "memory": _memory(engine),
    }
    text = Explanation("\n".join(_lines(facts)))
    text._facts = facts
    return text


def in_lanes(told: Sequence[Explanation], wheres: Sequence[str | None]) -> Explanation:
    """Return what was decided for the queries under each condition, one after the other."""
    if len(told) == 1:
        return told[0]
    lines = []
    for text, where in zip(told, wheres, strict=True):
        lines += [f"Records where {where}:" if where is not None else "All records:"]
        lines += [f"  {line}" for line in text.splitlines()]
    facts = {
        "stream": told[0].as_dict()["stream"],
        "queries": [query for text in told for query in text.as_dict()["queries"]],
        "lanes": [
            {"where": None if where is None else str(where), **text.as_dict()}
            for text, where in zip(told, wheres, strict=True)
        ],
    }
    whole = Explanation("\n".join(lines))
    whole._facts = facts
    return whole


def _query(engine: Engine, planned: PlannedQuery) -> dict[str, Any]:
    return {
        "name": planned.name,
        "window": repr(planned.query.window),
        "context": planned.query.window.context,
        "aggregates": {column: repr(a) for column, a in planned.query.aggregates.items()},
        "commutative": all(a.commutative for a in planned.query.aggregates.values()),
        "fields": [str(engine.plan.fields[n]) for n in sorted(planned.fields())],
        "decisions": _decisions(engine, engine.slices.decisions[planned.number], planned.fields()),
        **{
            name: str(text)
            for name in ("where", "having")
            if (text := getattr(planned.query, name)) is not None
        },
    }


def _decisions(engine: Engine, made: Decisions, fields: Iterable[int] = ()) -> dict[str, Any]:
    """Return what was decided; how records leave slices of count windows, for each of these fields."""
    reasons = dict(made.reasons)
    facts: dict[str, Any] = {
        name: {"decision": getattr(made, name), "because": reasons[name]}
        for name in ("keep_records", "splits", "removal", "cut_at")
    }
    removals = engine.slices.removals()
    by_field = {str(engine.plan.fields[n]): removals[n] for n in fields if n in removals}
    if len(set(by_field.values())) > 1:
        facts["removal"]["by field"] = by_field
    return facts


def _slices(engine: Engine) -> dict[str, Any]:
    slicer = engine.slices.slicer
    facts: dict[str, Any] = {}
    if slicer is not None and slicer.grid is not None:
        unit = _ticks_per_unit(engine.plan.clock)
        facts["edges per " + ("second" if engine.plan.clock.nanoseconds else "tick")] = (
            slicer.grid.count_between(0, unit)
        )
    if slicer is not None and slicer.gap is not None:
        facts["sessions"] = f"runs of records at most {in_words(slicer.gap, engine.plan.clock)} apart"
    if engine.slices.counts:
        facts["counts"] = "by position of a key's records"
    if engine.slices.positions:
        cut_at = together(engine.slices.decisions[p.number] for p in engine.plan.of_family("position")).cut_at
        facts["records"] = "by position of a key's records, " + (
            "each by itself: windows look back from each" if cut_at == "each record" else _WHERE
        )
        if _splits(engine):
            most = max(slices.settled.size.most for slices in engine.slices.positions.values())
            facts["records"] += f", at most {most} at a time: windows begin in hindsight, and split them"
    return facts


def _splits(engine: Engine) -> bool:
    """Tell whether slices are of bounded size, and their records kept, since windows split them."""
    return any(made.splits == "by recomputing" for made in engine.slices.decisions.values())


def _ticks_per_unit(clock: Clock) -> int:
    return 1 if clock.nanoseconds is None else 10**9 // clock.nanoseconds


def _memory(engine: Engine) -> dict[str, str]:
    facts = {}
    plan: Plan = engine.plan

    def words(ticks: int) -> str:
        return in_words(ticks, plan.clock)

    late = f" and the lateness of {words(engine.lateness)}" if engine.lateness else ""
    grids, sessions, counts = (plan.of_family(family) for family in ("grid", "session", "count"))
    if grids:
        longest = max(planned.window.length for planned in grids)
        facts["slices of grids"] = (
            f"a cell per slice and key, for the longest window of {words(longest)}{late}"
        )
    if sessions:
        gap = max(planned.window for planned in sessions)
        facts["sessions"] = f"a cell per run and key, until {words(gap)} after its last record{late}"
    if counts:
        longest = max(planned.window.length for planned in counts)
        facts["count windows"] = f"slices of the last {longest} records of each key, and how many it had"
        if any(engine.slices.decisions[planned.number].keep_records for planned in counts):
            facts["records that wait"] = f"those above the watermark{late}: their position may change"
    if plan.of_family("position"):
        facts["windows that records mark off"] = "slices of open windows and of what windows look back to"
        if _splits(engine):
            facts["records that windows may begin at"] = "those of slices that may be split"
        if not engine.slices.in_order:
            facts["records in doubt"] = f"those above the watermark{late}: others may come before them"
    if engine.slices.log is not None:
        facts["records"] = "as long as a slice that they are in"
    return facts


def _lines(facts: Mapping[str, Any]) -> list[str]:
    stream = facts["stream"]
    order = "in order" if stream["in_order"] else "out of order"
    late = f", lateness {stream['lateness']}" if stream["lateness"] not in ("0", 0) else ""
    lines = [f"Stream: {order} (watermark {stream['watermark']}{late})", "Queries:"]
    for query in facts["queries"]:
        aggregates = ", ".join(f"{column}={a}" for column, a in query["aggregates"].items())
        conditions = "".join(f", {name} {query[name]}" for name in ("where", "having") if name in query)
        lines.append(f"  {query['name']}: {query['window']} ({query['context']}), {aggregates}{conditions}")
    lines.append(f"Partials of a slice, after fusion: {', '.join(facts['fields'])}")
    lines.append("Decisions:")
    for name, made in facts["decisions"].items():
        value = {True: "yes", False: "no"}.get(made["decision"], made["decision"])
        lines.append(f"  {name.replace('_', ' ')}: {value}. {made['because']}")
        lines += [f"    {field}: {how}" for field, how in made.get("by field", {}).items()]
    lines.append("Slices:")
    for name, value in facts["slices"].items():
        lines.append(f"  {name}: {value:g}" if isinstance(value, float) else f"  {name}: {value}")
    lines.append(f"Store: {facts['store']['name']} ({facts['store']['how']})")
    lines.append("In memory:")
    lines += [f"  {name}: {value}" for name, value in facts["memory"].items()]
    return lines

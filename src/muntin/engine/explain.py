"""What an operator decided for its queries, and why: as words and as a dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from muntin.engine.engine import Engine
from muntin.engine.plan.decisions import Decisions, together
from muntin.engine.plan.queries import PlannedQuery
from muntin.windows.durations import Clock, in_words

_STORES = {
    "lazy": "each window is folded from its slices when it ends",
    "eager": "a FlatFAT per key is kept up to date: few combines per window and per late record",
    "sliding": "prefixes where there is an inverse, two stacks per query elsewhere",
    "auto": "windows of few slices one by one, else prefixes where there is an inverse, two stacks per query "
    "for up to 16 queries elsewhere, else pairs of slices, pairs of pairs and so on",
}


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
        "stream": {"watermark": watermark, "lateness": lateness, "in_order": engine.slices.setting.in_order},
        "queries": [_query(engine, planned) for planned in engine.plan.queries],
        "fields": [str(plan) for plan in engine.plan.fields.values()],
        "decisions": _decisions(engine, together(engine.slices.decisions.values()), engine.plan.fields),
        "slices": _slices(engine),
        "store": {"name": store, "how": _STORES[store]},
        "memory": _memory(engine),
        **_early(engine),
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
            for name in ("where", "having", "early")
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
    slicer, clock = engine.slices.slicer, engine.plan.clock
    facts: dict[str, Any] = {}
    if slicer is not None and slicer.grid is not None:
        unit = "second" if clock.nanoseconds else "tick"
        facts[f"edges per {unit}"] = slicer.grid.count_between(0, _ticks_per_unit(clock))
    words = partial(in_words, clock=clock)
    return facts | _together(family.describe(words) for family in engine.slices.families.values())


def _ticks_per_unit(clock: Clock) -> int:
    return 1 if clock.nanoseconds is None else 10**9 // clock.nanoseconds


def _memory(engine: Engine) -> dict[str, str]:
    words = partial(in_words, clock=engine.plan.clock)
    late = f" and the lateness of {words(engine.lateness)}" if engine.lateness else ""
    families = engine.slices.families.values()
    facts = _together(family.describe_memory(words, late) for family in families)
    if engine.slices.log is not None:
        facts["records"] = "as long as a slice that they are in"
    return facts


def _early(engine: Engine) -> dict[str, Any]:
    """Return what early results cost, where a query has some."""
    queries = [p for p in engine.plan.queries if p.query.early is not None]
    if not queries:
        return {}
    facts = {
        "each time": "all open windows are listed, and those that have changed are folded and emitted: "
        + ", ".join(f"{p.name} each {p.query.early}" for p in queries),
        "in memory": "identity, bounds and revision of each open window, and of one that is final until it "
        "can change no more",
    }
    hows = {p.query.window.vanishes() for p in queries}
    if "always" in hows or ("out of order" in hows and not engine.slices.setting.in_order):
        facts["in between"] = (
            "records may leave a window with another identity: it is looked for, and taken back"
        )
    return {"early": facts}


def _together(facts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return what families say, by topic; several of a kind have streams with different origins."""
    found: dict[str, list[str]] = {}
    for some in facts:
        for topic, text in some.items():
            if text not in found.setdefault(topic, []):
                found[topic].append(text)
    return {topic: "; ".join(texts) for topic, texts in found.items()}


def _lines(facts: Mapping[str, Any]) -> list[str]:
    stream = facts["stream"]
    order = "in order" if stream["in_order"] else "out of order"
    late = f", lateness {stream['lateness']}" if stream["lateness"] not in ("0", 0) else ""
    lines = [f"Stream: {order} (watermark {stream['watermark']}{late})", "Queries:"]
    for query in facts["queries"]:
        aggregates = ", ".join(f"{column}={a}" for column, a in query["aggregates"].items())
        told = ("where", "having", "early")
        conditions = "".join(f", {name} {query[name]}" for name in told if name in query)
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
    if "early" in facts:
        lines += ["Early results:", *(f"  {name}: {value}" for name, value in facts["early"].items())]
    return lines

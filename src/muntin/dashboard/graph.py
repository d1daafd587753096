"""The explain graph: stream, slices, fields and queries, and what is shared among them, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


def graph_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return nodes and edges of what `explain().as_dict()` says; each lane of records is a part of its own.

    >>> import muntin as mt
    >>> queries = [mt.tumbling(10).agg(a=mt.mean("v")), mt.tumbling(20).agg(b=mt.sum("v"))]
    >>> op = mt.WindowOperator(queries, time="t")
    >>> graph = graph_of(op.explain().as_dict())
    >>> [(field["name"], field["shared"]) for field in graph["lanes"][0]["fields"]]
    [('sum(v)', 2), ('n(v)', 1)]
    """
    lanes = facts.get("lanes") or [{"where": None, **facts}]
    return {"stream": facts["stream"], "lanes": [_lane(lane) for lane in lanes]}


def _lane(facts: Mapping[str, Any]) -> dict[str, Any]:
    used = Counter(field for query in facts["queries"] for field in query["fields"])
    return {
        "where": facts["where"],
        "slices": [f"{name}: {_shown(value)}" for name, value in facts["slices"].items()],
        "store": facts["store"],
        "memory": [f"{name}: {value}" for name, value in facts["memory"].items()],
        "decisions": [
            {"name": name.replace("_", " "), "decision": _shown(made["decision"]), "because": made["because"]}
            for name, made in facts["decisions"].items()
        ],
        "fields": [{"name": field, "shared": used[field]} for field in facts["fields"]],
        "queries": [
            {
                "name": query["name"],
                "window": query["window"],
                "context": query["context"],
                "aggregates": [f"{name} = {text}" for name, text in query["aggregates"].items()],
                "conditions": [f"{name} {query[name]}" for name in ("where", "having") if name in query],
                "fields": query["fields"],
                "decisions": {n: made["because"] for n, made in query["decisions"].items()},
            }
            for query in facts["queries"]
        ],
    }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)

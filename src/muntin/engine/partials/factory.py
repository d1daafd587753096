"""Which field holds the partials of a fused part, over columns of which types."""

from __future__ import annotations

from functools import partial
from typing import Any

from muntin.algebra import sums
from muntin.algebra.aggregate import Aggregate, Algebra, Kinds
from muntin.algebra.builtin import PARTS
from muntin.algebra.fusion import Field
from muntin.algebra.parts import Part
from muntin.algebra.sketches import Sketch
from muntin.engine.partials.base import FieldPartials
from muntin.engine.partials.compiled import CompiledField
from muntin.engine.partials.objects import ObjectField
from muntin.engine.partials.reductions import REDUCTIONS


def part_algebra(part: Part, kinds: Kinds | None) -> Algebra:
    """Return a part alone as an algebra."""
    codes = {"v": 0, "a": 1}
    fields = tuple(kinds[codes[c]] if c in codes else c for c in part.fields) if kinds is not None else None
    return Algebra(
        part.lift,
        part.combine,
        sums.same,
        invert=part.invert,
        invert_oldest=part.invert,
        fields=fields,
        result="f8",
    )


def make_field(field: Field, own: Aggregate | None, kinds: Kinds | None, *, nullable: bool) -> FieldPartials:
    """Return the verbs of a fused field over columns of these types; `own` is a user's aggregate."""
    from muntin.engine.partials.sketches import SketchField
    from muntin.kernels import NotCompilableError

    if field.part in ("runs", "list"):
        from muntin.engine.partials.lists import ListField
        from muntin.engine.partials.value_counts import RunsField

        return RunsField(kinds) if field.part == "runs" else ListField(kinds)
    if isinstance(own, Sketch):
        return SketchField(own)
    empty = own.empty if own else None
    part = None if own else PARTS[field.part](kinds, True)
    algebra = own.algebra(kinds) if own else part_algebra(part, kinds)  # type: ignore[arg-type]
    if kinds is not None:
        try:
            return CompiledField(
                partial(make_field, field, own, nullable=True),
                partial(_kernel, algebra=algebra, kinds=kinds, nullable=nullable, empty=empty),
                part,
                own,
                None if nullable else REDUCTIONS.get((field.part, *kinds)),
                kinds=kinds,
                nullable=nullable,
                invertible=not nullable and field.part in ("rows", "n", "sum"),  # little rounding is left
                extreme=not nullable and field.part in ("min", "max", "min_count", "max_count"),
            )
        except NotCompilableError:
            algebra = own.algebra(None) if own else part_algebra(PARTS[field.part](None, True), None)
            part = PARTS[field.part](None, True) if own is None else None
    return ObjectField(algebra, part, own, nulls=nullable)


def _kernel(template: str, *, algebra: Algebra, kinds: Kinds, nullable: bool, empty: Any) -> Any:
    from muntin.kernels import instantiate

    return instantiate(template, algebra, kinds, nullable=nullable, empty=empty)

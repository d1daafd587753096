"""Expressions over a record's columns: SQL text that stands wherever the name of a column stands."""

from muntin.expressions.expression import Expression, condition, expr, marked, sources, unmarked

__all__ = ["Expression", "condition", "expr", "marked", "sources", "unmarked"]

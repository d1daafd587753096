"""Emitted rows as Arrow tables: in order, in the types that all tables of an operator share."""

from muntin.engine.output.having import check_truth
from muntin.engine.output.tables import RowTables

__all__ = ["RowTables", "check_truth"]

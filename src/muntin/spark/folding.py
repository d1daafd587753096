"""Emitted rows, folded: the last word on each window."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from muntin.slicing.output import FIXED


def fold(df: DataFrame, key: str | list[str] | None = None) -> DataFrame:
    raise NotImplementedError

"""Window aggregation on Spark: DataFrames in, DataFrames out, the same windows as the embedded engine."""

from muntin.spark.aggregate import window_aggregate
from muntin.spark.folding import fold

__all__ = ["fold", "window_aggregate"]

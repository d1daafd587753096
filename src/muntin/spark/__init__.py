"""Window aggregation on Spark: DataFrames in, DataFrames out, the same windows as the embedded engine."""

from muntin.spark.aggregate import features, window_aggregate
from muntin.spark.dashboard import Dashboard
from muntin.spark.folding import fold
from muntin.spark.late import split_late
from muntin.spark.progress import BatchMetrics, Progress
from muntin.spark.replay import replay
from muntin.spark.session import JavaError, local_session
from muntin.spark.tables.parquet_table import ParquetTable
from muntin.spark.tables.sql_table import SqlTable

__all__ = [
    "BatchMetrics",
    "Dashboard",
    "JavaError",
    "ParquetTable",
    "Progress",
    "SqlTable",
    "features",
    "fold",
    "local_session",
    "replay",
    "split_late",
    "window_aggregate",
]

"""Tables that micro-batches are folded into: Parquet files and SQL databases."""

from muntin.spark.tables.parquet_table import ParquetTable
from muntin.spark.tables.sql_table import SqlTable

__all__ = ["ParquetTable", "SqlTable"]

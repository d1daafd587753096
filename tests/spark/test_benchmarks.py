"""The benchmarks on Spark run, and compare their answers; here they are too small to tell anything."""

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark import batch, built_in, check_same, ours, records, state


def test_a_small_batch(spark: SparkSession) -> None:
    found = batch(spark, 0.001)
    assert len(found) == 3
    assert all(got > 0 for _, got, _, _ in found)


def test_other_answers_are_found_out(spark: SparkSession) -> None:
    df = records(spark, 500, 60, 3)
    check_same(ours(df, 5), built_in(df, 5))
    with pytest.raises(AssertionError):
        check_same(ours(df, 5), built_in(df.where("v > 0"), 5))


def test_the_state_grows_neither_with_time_nor_with_rows(spark: SparkSession) -> None:
    found = state(spark, 0.0)
    assert len(found) == 6
    assert all(held for *_, held in found), found
    assert [times for name, times, *_ in found if "Spark's store in memory" not in name] == [1.0] * 4, found

"""One Spark session for all tests and doc tests that ask for it, with the settings that keep it small."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
_ON_SPARK = ROOT / "src" / "muntin" / "spark"  # doc tests there have the session as `spark`


def _in_doc_test(item: Any) -> bool:
    return isinstance(item, pytest.DoctestItem) and item.path.is_relative_to(_ON_SPARK)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests that need Spark: each would start a JVM of its own."""
    for item in items:
        if _in_doc_test(item) or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True)
def _session_in_doc_tests(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if _in_doc_test(request.node):
        doctest_namespace["spark"] = request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A session on two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers would take the system's
    os.environ["PYTHONPATH"] = str(ROOT)  # aggregates of the tests come by reference
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")  # a state store each
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()

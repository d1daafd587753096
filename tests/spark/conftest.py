"""One Spark session for all tests, with the settings that keep it small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests that need Spark: each would start a JVM of its own."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from muntin.spark import local_session

    os.environ["PYTHONPATH"] = str(ROOT)  # aggregates of the tests come by reference
    with local_session("muntin tests", cores=2) as session:
        session.sparkContext.setLogLevel("OFF")  # tests let queries fail
        yield session

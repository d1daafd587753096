"""One Spark session for all tests and doc tests that ask for it, with the settings that keep it small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
_ON_SPARK = ROOT / "src" / "muntin" / "spark"  # doc tests there have the session as `spark`


def _in_doc_test(item: Any) -> bool:
    return isinstance(item, pytest.DoctestItem) and item.path.is_relative_to(_ON_SPARK)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in a hook of the same name
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
    from muntin.spark import local_session

    os.environ["PYTHONPATH"] = str(ROOT)  # aggregates of the tests come by reference
    with local_session("muntin tests", cores=2) as session:
        session.sparkContext.setLogLevel("OFF")  # tests let queries fail
        yield session

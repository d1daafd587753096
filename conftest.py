"""One Spark session for all tests and doc tests that ask for it, with the settings that keep it small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent
# Tests run much of Spark just once: Java compiles quickly rather than well, also in programs they start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
_ON_SPARK = ROOT / "src" / "muntin" / "spark"  # doc tests there have the session as `spark`
_BY_THEMSELVES = tuple(
    f"tests/spark/test_{name}" for name in ("cli.py::test_the_examples", "faults", "workers")
)


def _in_doc_test(item: Any) -> bool:
    return isinstance(item, pytest.DoctestItem) and item.path.is_relative_to(_ON_SPARK)


class _OneWorkerForSpark(LoadScopeScheduling):
    """Tests one by one, but all that need a Spark session for one worker: each would start a JVM of its own.

    pytest-xdist's groups would do, but its 3.8 writes them where pytest 9.2 does not look.
    """

    def _split_scope(self, nodeid: str) -> str:
        on_spark = nodeid.startswith(("tests/spark/", "src/muntin/spark/"))
        return "spark" if on_spark and not nodeid.startswith(_BY_THEMSELVES) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Return who hands out tests to workers."""
    return _OneWorkerForSpark(config, log)


@pytest.fixture(autouse=True)
def _session_in_doc_tests(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if _in_doc_test(request.node):
        doctest_namespace["spark"] = request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A session on two cores."""
    from muntin.spark import local_session

    # Workers run this code, and aggregates of the tests come by reference.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with local_session("muntin tests", cores=2) as session:
        session.sparkContext.setLogLevel("OFF")  # tests let queries fail
        yield session

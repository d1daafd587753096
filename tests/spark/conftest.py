"""One local Spark session for all tests; a worker of pytest-xdist that has none of them starts none."""

import pytest

from muntin.spark import local_session


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in a hook of the same name
def pytest_collection_modifyitems(items):
    """Let one process have all tests here, and so one Java."""
    for item in items:
        if "tests/spark" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark():
    with local_session("muntin tests", cores=2) as session:
        yield session

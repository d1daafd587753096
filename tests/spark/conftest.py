"""What tests on Spark share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.postgres import server
from tests.spark.targets import Parquet, Postgres, Sqlite


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server, as what psycopg connects to."""
    with server() as dsn:
        yield dsn


@pytest.fixture(params=[Sqlite, Postgres])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Sqlite | Postgres:
    """A table in each database."""
    if request.param is Postgres:
        return Postgres(request.getfixturevalue("postgres"))
    return Sqlite(tmp_path)


@pytest.fixture(params=[Parquet, Sqlite, Postgres])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Parquet | Sqlite | Postgres:
    """A table of each kind."""
    if request.param is Postgres:
        return Postgres(request.getfixturevalue("postgres"))
    made: Parquet | Sqlite = request.param(tmp_path)
    return made

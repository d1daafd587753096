"""The local session: its settings, its Python, and what it says where there is no Java."""

import os
import re
import subprocess
import sys

import pytest

from muntin.spark.session import JavaError, java_version, local_session


def test_settings_that_matter(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    store = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    assert store.endswith("RocksDBStateStoreProvider")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.master == "local[2]"


def test_workers_run_this_python(spark):
    ran = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert ran == [sys.executable]


def test_a_session_that_runs_already_is_returned(spark):
    assert local_session().sparkContext is spark.sparkContext


TWICE = """
from muntin.spark import local_session
for k in (3, 4):
    with local_session(cores=1, config={"spark.sql.shuffle.partitions": str(k)}) as spark:
        print(spark.range(10).repartition(2).count(), spark.conf.get("spark.sql.shuffle.partitions"))
"""


def test_twice_in_a_process_with_other_settings_and_quietly(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120
    )
    assert done.stdout.split() == ["10", "3", "10", "4"]
    # Java itself may say what it likes; lines of Spark's log begin with their time, or say that it starts.
    assert re.findall(r"^\d\d[:/]\d\d.*|.*(?:Spark|log4j|log level).*", done.stderr, re.M) == []
    assert os.listdir(tmp_path) == []


# ---- Java ----


def pretend(folder, script):
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("22-ea", 22)])
def test_versions_of_java(tmp_path, monkeypatch, said, version):
    pretend(tmp_path, f"""echo 'openjdk version "{said}" 2025-04-15' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == version


@pytest.mark.parametrize("said", ["1.8.0_402", "11.0.2"])
def test_a_java_that_is_too_old(tmp_path, monkeypatch, said):
    pretend(tmp_path, f"""echo 'openjdk version "{said}" 2019-04-16' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=r"needs Java 17 or newer, but .* is Java (8|11): install one"):
        local_session()


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="and there is none: install one"):
        local_session()


def test_a_java_that_does_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="does not run: install one"):
        local_session()
    pretend(tmp_path, "echo hello >&2")
    with pytest.raises(JavaError, match="does not say its version"):
        local_session()

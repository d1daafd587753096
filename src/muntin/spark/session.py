"""local_session: a Spark session on this machine, set up right for windows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

OLDEST_JAVA = 17  # what Spark 4 is built for
_INSTALL = "install one (Debian: apt-get install openjdk-17-jre-headless) or name one in JAVA_HOME."
_QUIET = Path(__file__).with_name("log4j2.properties")


class JavaError(RuntimeError):
    """There is no Java that Spark can run on; the text says what to do."""


def local_session(
    app: str = "muntin",
    *,
    cores: int | None = None,
    memory: str = "2g",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session on this machine; `with local_session() as spark:` stops it at the end.

    `cores` defaults to all. `config` adds settings of Spark, or replaces the ones made here. Where a session
    runs already in this process, Spark returns that one, with the settings that may still change.

        with local_session() as spark:
            spark.range(10).show()
    """
    java_version()
    # Workers start this Python, not the system's: they need the same packages. Only the environment says so
    # to a session that is started from Python.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    cores = cores or os.cpu_count() or 1
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    for name, value in {**_settings(cores, memory), **(config or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")  # also where the Java process was started by somebody else
    return spark


def _settings(cores: int, memory: str) -> dict[str, str]:
    """Return the settings that matter, each with its reason."""
    return {
        # Windows lie in UTC whatever the machine's zone; calendar windows name their own zone.
        "spark.sql.session.timeZone": "UTC",
        # Stateful queries in Python (transformWithState) run on this store only.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        # A micro-batch writes what it changed, not a copy of the whole state.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A checkpoint that Spark put into a temporary directory goes with its query.
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        # toPandas, createDataFrame and Python functions pass columns, not pickled rows.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # With any other limit, Spark adds up the bytes of a batch anew after each row, which takes more than
        # half of the time that records need to reach Python. Batches end after 10,000 rows all the same.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # The default of 200 is for a cluster: here, each partition beyond the cores only costs a task,
        # and in a stateful query a state store and its files.
        "spark.sql.shuffle.partitions": str(cores),
        # Nobody looks at a web page of a session that lives for minutes, and its port may be taken.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Driver and workers are one machine: no name look-up, and nothing listens to the network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # In local mode the driver's heap is all there is; 1 GB, the default, is little for shuffles.
        "spark.driver.memory": memory,
        # Start-up warnings hide a user's own output.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    }


def java_version() -> int:
    """Return the version of the Java that Spark would start; raise JavaError if there is none that it can."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if command is None:
        raise JavaError(f"Spark needs Java {OLDEST_JAVA} or newer, and there is none: {_INSTALL}")
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {command} does not run: {_INSTALL}"
        ) from error
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if found is None:
        raise JavaError(f"{command} does not say its version in a way that is known: {said.strip()!r}.")
    # Java 8 called itself 1.8
    version = int(found[2]) if found[1] == "1" and found[2] else int(found[1])
    if version < OLDEST_JAVA:
        raise JavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but {command} is Java {version}: {_INSTALL}"
        )
    return version

"""The code of the Spark guide that says that it runs, runs."""

import contextlib
import re
from datetime import datetime
from pathlib import Path

import pyspark

from muntin.spark import fold

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def blocks(folder):
    """Return the code, with its files in a folder: Java stays in the directory in which it was started."""
    found = re.findall(r"<!-- runs -->\n```python\n(.*?)```", GUIDE.read_text(), re.S)
    return [re.sub(r'"(cars\.csv|out/)', rf'"{folder}/\1', code) for code in found]


def test_the_connector_for_kafka_is_of_this_version():
    (scala,) = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    binary = ".".join(scala.stem.split("-")[-1].split(".")[:2])
    named = f"org.apache.spark:spark-sql-kafka-0-10_{binary}:{pyspark.__version__} "
    assert named in GUIDE.read_text()


def as_set(rows):
    return {tuple(sorted(row.items())) for row in rows}


def test_the_guide(spark, tmp_path, capsys):
    rows = [f"2026-01-01 00:00:{second:02},{car},{second % 7}.5" for second in range(40) for car in "ab"]
    (tmp_path / "cars.csv").write_text("ts,car,speed\n" + "\n".join(rows) + "\n")
    namespace = {}
    batch, stream, late, progress = blocks(tmp_path)
    exec(batch, namespace)
    assert "recent" in capsys.readouterr().out
    whole = fold(namespace["windows"]).drop("revision", "change").toArrow().to_pylist()
    assert len(whole) == 20
    exec(stream, namespace)
    table = namespace["table"].read().drop_columns(["revision"])
    passed = datetime.fromisoformat(namespace["query"].lastProgress["eventTime"]["watermark"])
    ended = [row for row in whole if row["window_end"] <= passed]
    assert 14 <= len(ended) < 20
    assert as_set(table.to_pylist()) == as_set(ended)
    exec(late, namespace)
    dropped = [p.observedMetrics["muntin"].late_dropped for p in namespace["query"].recentProgress]
    kept = spark.read.parquet(str(tmp_path / "out/late/*"))
    assert kept.columns == ["ts", "car", "speed"]
    assert kept.count() == sum(dropped)
    exec(progress, namespace)
    assert (tmp_path / "out/progress.svg").exists()
    with contextlib.suppress(KeyError):
        spark.streams.removeListener(namespace["progress"])

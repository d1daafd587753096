"""The code of the pages on Spark runs: the guide, and all others that need a session."""

import contextlib
import json
import re
from datetime import datetime
from pathlib import Path

import pyspark
import pytest

from muntin.spark import fold
from tests import docs_code

GUIDE = docs_code.ROOT / "docs" / "spark.md"
OTHERS = [page for page in docs_code.with_code() if docs_code.on_spark(page) and page != GUIDE]


def test_the_connector_for_kafka_is_of_this_version():
    (scala,) = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    binary = ".".join(scala.stem.split("-")[-1].split(".")[:2])
    named = f"org.apache.spark:spark-sql-kafka-0-10_{binary}:{pyspark.__version__} "
    assert named in GUIDE.read_text()


class Steps:
    """The blocks of the guide, run up to the one that says something; files are in a folder."""

    def __init__(self, folder):
        self.folder, self.namespace = folder, {"__name__": "__main__"}
        self.left = docs_code.blocks(GUIDE)

    def __call__(self, words):
        code = ""
        while words not in code:
            code, needs = self.left.pop(0)
            # Java stays in the directory in which it was started
            code = re.sub(r'"(cars\.csv|out/|incoming/|windows\.db)', rf'"{self.folder}/\1', code)
            compiled = compile(code, "a block of the guide", "exec")
            if needs is None:
                exec(compiled, self.namespace)
        return self.namespace


def as_set(rows):
    return {tuple(sorted(row.items())) for row in rows}


def test_the_guide(spark, tmp_path, capsys):
    times = [(f"2026-01-01 00:00:{second:02}", car, second % 7 + 0.5) for second in range(40) for car in "ab"]
    (tmp_path / "cars.csv").write_text("ts,car,speed\n" + "".join(f"{t},{c},{v}\n" for t, c, v in times))
    (tmp_path / "incoming").mkdir()
    hours = [{"ts": f"2026-01-01T{hour:02}:00:00Z", "car": "a", "speed": 1.0} for hour in range(3)]
    (tmp_path / "incoming" / "cars.json").write_text("\n".join(map(json.dumps, hours)))
    run = Steps(tmp_path)
    whole = fold(run("windows.orderBy")["windows"]).drop("revision", "change").toArrow().to_pylist()
    assert "recent" in capsys.readouterr().out
    assert len(whole) == 20
    seen = run("table.read()")
    table = seen["table"].read().drop_columns(["revision"])
    passed = datetime.fromisoformat(seen["query"].lastProgress["eventTime"]["watermark"])
    ended = [row for row in whole if row["window_end"] <= passed]
    assert 14 <= len(ended) < 20
    assert as_set(table.to_pylist()) == as_set(ended)
    seen = run("split_late")
    dropped = [p.observedMetrics["muntin"].late_dropped for p in seen["query"].recentProgress]
    kept = spark.read.parquet(str(tmp_path / "out/late/*"))
    assert kept.columns == ["ts", "car", "speed"]
    assert kept.count() == sum(dropped)
    run("out/speeds")
    assert spark.read.parquet(str(tmp_path / "out/speeds")).count() == 20  # two of three hours are over
    run("fold(spark.table")
    assert spark.table("seen").count() == 20
    progress = run("Progress()")["progress"]
    assert (tmp_path / "out/progress.svg").exists()
    assert run.left == []
    with contextlib.suppress(KeyError):
        spark.streams.removeListener(progress)


@pytest.mark.usefixtures("spark")  # they ask for the session by themselves
@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.relative_to(docs_code.ROOT).as_posix())
def test_the_code_of_a_page_runs(page):
    docs_code.run(page, {"__name__": "__main__"})

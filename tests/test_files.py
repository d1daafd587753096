"""Files appear whole or not at all, and where they are written nobody else's file is changed."""

import pyarrow as pa
import pytest

from muntin.cli.commands.generating import generate
from muntin.cli.pipeline.config import load
from muntin.cli.pipeline.sinks import Parts, write_table
from muntin.cli.pipeline.states import State
from muntin.files import write_new, write_whole
from muntin.spark.tables.parquet_table import ParquetTable
from tests.cli.program import TICKS

ROWS = pa.table({"n": [1, 2]})
WINDOWS = pa.table(
    {
        "query": ["q"],
        "window_start": [0],
        "window_end": [5],
        "window_id": pa.array([None], pa.int64()),
        "revision": [0],
        "change": ["insert"],
    }
)


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "out").write_text("before")

    def fail(file):
        file.write(b"half")
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write_whole(tmp_path / "out", fail)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "before"


def test_what_a_killed_writer_left_is_replaced(tmp_path):
    (tmp_path / ".out.pending").write_text("much more than half")
    write_whole(tmp_path / "out", lambda file: file.write(b"all"))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("out", "all")]


@pytest.fixture
def others(tmp_path):
    """A file of somebody else, to which links lead that lie where files are about to be written."""
    (tmp_path / "others").write_text("precious")
    (tmp_path / "out").mkdir()
    return tmp_path / "others"


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_a_sink_does_not_write_through_a_link(tmp_path, others, kind):
    path = tmp_path / "out" / f"rows.{kind}"
    (tmp_path / "out" / f".rows.{kind}.pending").symlink_to(others)
    write_table(path, ROWS, kind)
    assert others.read_text() == "precious"
    assert path.is_file()
    assert not path.is_symlink()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_parts_are_not_written_through_links(tmp_path, others):
    (tmp_path / "out" / ".part-000003.parquet.pending").symlink_to(others)
    (tmp_path / "out" / "part-000003.parquet").symlink_to(others)
    parts = Parts(tmp_path / "out", "parquet")
    parts.write(3, ROWS)
    assert others.read_text() == "precious"
    assert parts.read() == ROWS


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_a_recording_is_not_written_through_a_link(tmp_path, others, kind):
    (tmp_path / "out" / f".ticks.{kind}.pending").symlink_to(others)
    generate("stocks", tmp_path / "out" / f"ticks.{kind}", 1, 2, None, "1s", 0, as_lines=True)
    assert others.read_text() == "precious"


def begin(tmp_path, planted, others):
    """Begin a run, where a link lies in the folder of its checkpoint."""
    (tmp_path / "ticks.toml").write_text(TICKS.replace("out.csv", str(tmp_path / "out.csv")))
    folder = tmp_path / "out.csv.checkpoint"
    folder.mkdir()
    (folder / planted).symlink_to(others)
    state = State(load(tmp_path / "ticks.toml"), "embedded", fresh=True)
    state.source(None)
    state.close()


@pytest.mark.parametrize("name", [".run.json.pending", "run.json"])
def test_a_checkpoint_is_not_written_through_a_link(tmp_path, others, name):
    begin(tmp_path, name, others)
    assert others.read_text() == "precious"


def test_a_lock_is_no_link(tmp_path, others):
    with pytest.raises(OSError, match="symbolic links"):
        begin(tmp_path, "lock", others)
    assert others.read_text() == "precious"


def test_a_table_is_not_written_through_a_link(tmp_path, others):
    for name in (".current.json.pending", "current.json.pending"):
        (tmp_path / "out" / name).symlink_to(others)
    table = ParquetTable(tmp_path / "out")
    table.take(WINDOWS, "stream", 0)
    assert others.read_text() == "precious"
    assert table.read()["window_end"].to_pylist() == [5]


def test_a_new_file_replaces_nothing(tmp_path, others):
    (tmp_path / "link").symlink_to(others)
    for name in ("others", "link"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, lambda file: file.write(b"else"))
    assert others.read_text() == "precious"

"""What a user can put right: one sentence that names the line, exit code 2, and nothing half-written."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from muntin.cli.commands.checking import opened
from muntin.cli.commands.running import run
from muntin.cli.pipeline.config import load
from muntin.cli.pipeline.states import Reached, State
from muntin.console.mistakes import MistakeError
from tests.cli.program import TICKS, command, muntin, write_ticks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ticks")
    write_ticks(path)
    return path


def said(folder, before, after, name="bad.toml"):
    """Return what is said of the pipeline with a text replaced by another."""
    assert before in TICKS
    (folder / name).write_text(TICKS.replace(before, after, 1))
    with pytest.raises(MistakeError) as caught:
        opened(load(Path(name)))
    return str(caught.value)


MISTAKES = [
    ("mean(price)", "mean(prise)", "line 16: there is no column 'prise'; did you mean 'price'?"),
    ("price * volume", "price * vol", "line 17: there is no column 'vol'; did you mean 'volume'?"),
    ("frame(volume", "frame(volumes", "line 21: there is no column 'volumes'; did you mean 'volume'?"),
    ('key = "symbol"', 'key = "symbols"', "line 8: there is no column 'symbols'; did you mean 'symbol'?"),
    ("mean(price)", "men(price)", "line 16: there is no aggregate 'men'; did you mean 'mean'?"),
    (
        "mean(price)",
        "mean(price",
        "line 16: 'mean(price' is no aggregate: write it as a call, as in 'mean(speed)'.",
    ),
    (
        "mean(price)",
        "mean(symbol)",
        "line 12: mean('symbol') needs numbers, but column 'symbol' holds string.",
    ),
    ("sliding(", "slidin(", "line 14: there is no window 'slidin'; did you mean 'sliding'?"),
    ("every='500ms'", "evry='500ms'", "line 14: sliding has no 'evry'; did you mean 'every'?"),
    ('time = "ts"', 'tme = "ts"', "line 7: [stream] has no 'tme'; did you mean 'time'?"),
    (
        'time = "ts"',
        'time = "price"',
        "line 7: the time column 'price' holds double, not integers or timestamps.",
    ),
    ('time = "ts"\n', "", "line 6: [stream] needs 'time', the column with the time of each record."),
    ("1s", "1x", "line 9: watermark is '1x', which is no duration: write '500ms', '10s', '5m', '2h', '1d', "),
    ('watermark = "1s"\n', "", "line 9: lateness needs a watermark: without one, every record counts."),
    ('"csv"', '"cvs"', "line 2: there is no format 'cvs'; did you mean 'csv'?"),
    ('"4kB"', '"4 cows"', "line 4: per_batch is a size such as '16MB', not '4 cows'."),
    ("[sink]", "[sinc]", "line 25: the file has no 'sinc'; did you mean 'sink'?"),
    ("[sink]", "[sink", "line 25: this is no TOML: "),
    ('path = "out.csv"', "", "line 25: [sink] needs 'path'."),
    (
        'name = "rises"',
        'name = "recent"',
        "line 20: there are two queries named 'recent'; give each its own name.",
    ),
    ('name = "rises"', 'where = "volume >"', "line 20: where: "),
    ("[query.aggregates]\nmean", "[query.agregates]\nmean", "line 12: [query] needs 'aggregates'."),
    ("threshold_frame(volume, '>', 100, min_records=3)", "last_n(2)", "line 21: 'last_n(2)': "),
    ("ticks.csv", "tocks.csv", "there is no csv file at tocks.csv: look at path in [source]."),
]


@pytest.mark.parametrize(("before", "after", "sentence"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_a_mistake_in_the_file(folder, monkeypatch, before, after, sentence):
    monkeypatch.chdir(folder)
    where = f"bad.toml, {sentence}" if sentence.startswith("line") else sentence
    told = said(folder, before, after)
    assert told.startswith(where)
    assert "\n" not in told


def test_a_mistake_in_a_statement_names_its_line(folder, monkeypatch):
    monkeypatch.chdir(folder)
    begin = TICKS.index("window = ")
    select = "SELECT symbol, COUNT(*) AS n\nFROM TUMBLE(ticks, ts, '1 parsec')\nGROUP BY symbol"
    statement = f'sql = """\n{select}\n"""\n'
    text = TICKS[:begin] + statement + TICKS[TICKS.index("[[query]]", begin) :]
    (folder / "bad.toml").write_text(text)
    with pytest.raises(MistakeError, match=r"^bad\.toml, line 16: "):
        load(Path("bad.toml"))


def test_a_statement_must_agree_with_the_stream(folder, monkeypatch):
    monkeypatch.chdir(folder)
    begin = TICKS.index("window = ")
    statement = "sql = \"SELECT COUNT(*) AS n FROM TUMBLE(ticks, ts, '1 minute') GROUP BY window_start\"\n"
    (folder / "bad.toml").write_text(TICKS[:begin] + statement + TICKS[TICKS.index("[[query]]", begin) :])
    with pytest.raises(
        MistakeError,
        match="line 14: query 'recent' groups by no column, but the key of the stream is 'symbol'",
    ):
        load(Path("bad.toml"))


def test_statements_must_agree_with_each_other(folder, monkeypatch):
    monkeypatch.chdir(folder)
    select = "SELECT COUNT(*) AS n FROM TUMBLE(ticks, ts, '1 minute') GROUP BY"
    text = f'[source]\nformat = "csv"\npath = "ticks.csv"\n[[query]]\nsql = "{select} window_start"\n'
    (folder / "bad.toml").write_text(f'{text}[[query]]\nsql = "{select} symbol, window_start"\n')
    with pytest.raises(
        MistakeError,
        match=r"line 7: the query .* groups by 'symbol', but the key of another query is no column",
    ):
        load(Path("bad.toml"))


def test_queries_are_tables(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('query = [1, 2]\n[source]\nformat = "csv"\npath = "ticks.csv"\n')
    with pytest.raises(MistakeError, match=r"line 1: a query is a table under \[\[query\]\], not 1\."):
        load(path)


@pytest.mark.parametrize(
    ("source", "sink", "line"),
    [
        ("in/part-000000.csv", 'path = "in/part-000000.csv"', 27),
        ("in/*.csv", 'path = "./in/../in/part-000000.csv"', 27),
        ("link.csv", 'path = "in/part-000000.csv"', 27),
        ("in", 'rows = "changes"\npath = "in"', 28),
        ("link.csv", 'rows = "changes"\npath = "in"', 28),
    ],
)
def test_rows_do_not_replace_what_is_read(folder, tmp_path, monkeypatch, source, sink, line):
    monkeypatch.chdir(tmp_path)
    text = (folder / "ticks.csv").read_text()
    Path("in").mkdir()
    Path("in/part-000000.csv").write_text(text)
    Path("link.csv").symlink_to("in/part-000000.csv")
    Path("bad.toml").write_text(TICKS.replace("ticks.csv", source).replace('path = "out.csv"', sink))
    with pytest.raises(MistakeError, match=rf"^bad\.toml, line {line}: rows would replace .*which bad\.toml"):
        run([Path("bad.toml")], "embedded", fresh=False, as_lines=True)
    assert sorted(os.listdir()) == ["bad.toml", "in", "link.csv"]
    assert os.listdir("in") == ["part-000000.csv"]
    assert Path("in/part-000000.csv").read_text() == text


SMALL = """[source]
format = "csv"
path = "in.csv"
per_batch = "5B"
[stream]
time = "t"
[[query]]
window = "tumbling(10)"
aggregates = { total = "sum(v * 1000000000)" }
[sink]
format = "csv"
path = "out.csv"
[checkpoint]
every = "0s"
"""


def test_a_first_run_that_fails_at_once_leaves_nothing(tmp_path, monkeypatch):
    """What is put right then is no change of a pipeline at work; after a checkpoint, it is one."""
    monkeypatch.chdir(tmp_path)
    path = Path("in.toml")
    for place, left in ((1, []), (5, ["out.csv.checkpoint"])):
        lines = ["t,v", *(f"{k},{k}" for k in range(5))]
        lines[place] = f"{place},1000000000000"
        Path("in.csv").write_text("\n".join(lines) + "\n")
        path.write_text(SMALL)
        with pytest.raises(MistakeError, match=r"^in\.toml: .* left the 64-bit range"):
            run([path], "embedded", fresh=False, as_lines=True)
        assert sorted(os.listdir()) == ["in.csv", "in.toml", *left]
        path.write_text(SMALL.replace("1000000000", "1.0"))
        if left:
            with pytest.raises(MistakeError, match="has changed since the run"):
                run([path], "embedded", fresh=False, as_lines=True)
        else:
            assert run([path], "embedded", fresh=False, as_lines=True) == 0
            Path("out.csv").unlink()


def test_a_checkpoint_whose_operator_is_damaged(folder, monkeypatch):
    monkeypatch.chdir(folder)
    Path("torn.toml").write_text(TICKS.replace("out.csv", "torn.csv"))
    pipeline = load(Path("torn.toml"))
    state = State(pipeline, "embedded", fresh=False)
    state.source(opened(pipeline))
    state.save(Reached(1, None, 0, 0, b"torn"))
    state.close()
    with pytest.raises(MistakeError, match=r"torn\.csv\.checkpoint is damaged .* begin anew with --fresh"):
        run([Path("torn.toml")], "embedded", fresh=False, as_lines=True)


# ---- the program itself ----


def test_a_mistake_that_shows_at_the_end(tmp_path):
    """Without a watermark, all windows come out at the end, and so does what cannot be computed of them."""
    (tmp_path / "in.csv").write_text("t,v\n1,1\n2,2\n3,3\n")
    having = 'having = "total * 4611686018427387904 > 3"\naggregates = { total = "sum(v)" }\n[sink]'
    begin = SMALL.index("aggregates")
    (tmp_path / "in.toml").write_text(SMALL[:begin] + having + SMALL[SMALL.index("[sink]") + 6 :])
    refused(
        muntin("run", "--engine", "embedded", "in.toml", cwd=tmp_path), "in.toml: ", " left the 64-bit range"
    )
    assert not (tmp_path / "out.csv").exists()


def refused(done, *words):
    """Check that the program said one sentence, and ended with 2."""
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("muntin: ")
    for word in words:
        assert word in line


def test_a_typo_in_a_column(folder):
    (folder / "typo.toml").write_text(TICKS.replace("mean(price)", "mean(prise)"))
    done = muntin("run", "--engine", "embedded", "--json", "typo.toml", cwd=folder)
    refused(done, "typo.toml, line 16: there is no column 'prise'; did you mean 'price'?")
    assert json.loads(done.stdout)["event"] == "error"
    assert not (folder / "out.csv.checkpoint").exists()


def test_a_broken_config(folder):
    (folder / "broken.toml").write_text("[source\n")
    refused(muntin("explain", "broken.toml", cwd=folder), "broken.toml, line 1: this is no TOML: ")


def test_a_file_that_cannot_be_read(folder, tmp_path):
    text = TICKS.replace('"csv"', '"parquet"', 1).replace("ticks.csv", "torn.parquet")
    (tmp_path / "torn.toml").write_text(text)
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    refused(muntin("run", "--engine", "embedded", "torn.toml", cwd=tmp_path), "torn.parquet cannot be read: ")
    refused(
        muntin("run", "nowhere.toml", cwd=folder), "nowhere.toml cannot be read: no such file or directory."
    )


def test_no_java(folder):
    done = muntin("run", "ticks.toml", cwd=folder, PATH="/nowhere", JAVA_HOME="")
    refused(done, "Spark needs Java 17 or newer, and there is none: install one", "--engine embedded")
    assert not (folder / "out.csv.checkpoint").exists()
    checked = muntin("doctor", "--json", cwd=folder, PATH="/nowhere", JAVA_HOME="")
    assert checked.returncode == 2
    checks = {check["name"]: check for check in map(json.loads, checked.stdout.splitlines())}
    assert checks["Java"]["state"] == "amiss"
    assert "install one" in checks["Java"]["advice"]
    assert checks["Python"]["state"] == "ok"


def test_values_that_do_not_fit(tmp_path):
    write_ticks(tmp_path)
    lines = (tmp_path / "ticks.csv").read_text().splitlines()
    lines[-2] = lines[-2].rpartition(",")[0] + ",many"
    # so far from the start that types are told without it
    (tmp_path / "ticks.csv").write_text("\n".join(lines[:1] + lines[1:-2] * 130 + lines[-2:]) + "\n")
    (tmp_path / "ticks.toml").write_text(TICKS.replace("4kB", "1MB"))
    done = muntin("run", "--engine", "embedded", "ticks.toml", cwd=tmp_path)
    refused(done, "ticks.csv cannot be read: ", "[source.types]")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a namespace with a small disk of its own")
def test_a_full_disk(tmp_path):
    """Run on a disk of 64 kB, where nothing half-written is left; with more room, the run goes on."""
    write_ticks(tmp_path, seconds=300)
    (tmp_path / "disk").mkdir()
    (tmp_path / "ticks.toml").write_text(TICKS.replace("out.csv", "disk/out.csv"))
    program = " ".join(command("run", "--engine", "embedded", "ticks.toml"))
    script = (
        f"cd {tmp_path}; mount -t tmpfs -o size=64k none disk || exit 77; {program}; echo $?; "
        f"find disk -type f; mount -o remount,size=10m disk; {program} 2>&1; wc -l < disk/out.csv"
    )
    rooted = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    within = ["unshare", "--mount", *rooted, "sh", "-c", script]
    done = subprocess.run(within, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this system lets nobody mount")
    code, *files, resumed, ended, lines = done.stdout.splitlines()
    assert code == "2", done.stderr
    (line,) = done.stderr.splitlines()
    assert "is full: make room and run ticks.toml again" in line
    assert not [name for name in files if name.endswith((".pending", "out.csv"))]
    assert resumed.startswith("ticks: goes on after ")
    assert ended.startswith("ticks: done: 4,500 records")
    assert run([tmp_path / "ticks.toml"], "embedded", fresh=False, as_lines=True) == 0  # with room enough
    assert int(lines) == len((tmp_path / "disk" / "out.csv").read_text().splitlines())

"""A checkpoint of which anything is missing, damaged or of another moment is refused, and left as it is."""

import json
import os
import shutil
from pathlib import Path

import pytest

from muntin.cli.commands.running import run
from muntin.cli.pipeline import sealed
from muntin.cli.reports import Report
from muntin.console.mistakes import MistakeError
from muntin.engine.state.envelope import pack, unpack
from tests.cli.program import TICKS, muntin, write_ticks
from tests.cli.test_mistakes import refused

EARLY, LATE = 12, 20  # batches, of some thirty
SHORT = TICKS.replace('"4kB"', '"1kB"')
CHANGES = SHORT.replace('path = "out.csv"', 'path = "out"\nrows = "changes"')


class Killed(BaseException):
    """Ends a run as `kill -9` does: nothing more is written."""


def kill_after(monkeypatch, batches):
    """Let the next run end as if killed, after it has computed so many batches and before it says so."""

    def step(report, counts):
        if counts.batches == batches:
            raise Killed

    monkeypatch.setattr(Report, "step", step)


def go_on(folder, *, fresh=False):
    return run([folder / "ticks.toml"], "embedded", fresh=fresh, as_lines=True)


def make(folder, text):
    """Make checkpoints of a run at two moments, and the rows of one that nobody disturbed."""
    write_ticks(folder, pipeline=text)
    assert go_on(folder) == 0
    (folder / "out.csv").replace(folder / "want.csv")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, batches in (("early", EARLY), ("late", LATE)):
            kill_after(monkeypatch, batches + 1)
            with pytest.raises(Killed):
                go_on(folder)
            shutil.copytree(folder / "out.csv.checkpoint", folder / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    make(folder, SHORT)
    return folder


def reset(folder, name="late"):
    """Let a run have been killed at this moment."""
    checkpoint = folder / "out.csv.checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    shutil.copytree(folder / name, checkpoint)
    (folder / "out.csv").unlink(missing_ok=True)
    return checkpoint


@pytest.fixture
def checkpoint(made):
    return reset(made)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_refused(folder, what):
    """Check that the run is refused in one sentence, that nothing changes, and that --fresh helps."""
    before = contents(folder)
    told = (
        rf"^the checkpoint in \S+ is (not whole, since|damaged) .*{what}.*: restore it from a copy, or begin"
    )
    with pytest.raises(MistakeError, match=told) as caught:
        go_on(folder)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


def check_goes_on(folder):
    """Check that the run goes on to the rows of one that nobody disturbed."""
    assert go_on(folder) == 0
    assert (folder / "out.csv").read_text() == (folder / "want.csv").read_text()
    assert not (folder / "out.csv.checkpoint").exists()


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])


def test_a_killed_run_goes_on(made):
    for name in ("early", "late"):
        assert len(list((reset(made, name) / "parts").iterdir())) > 3
        check_goes_on(made)


FILES = ["run.json", "written.json", "embedded.checkpoint", "parts/first", "parts/last"]


def file_of(checkpoint, name):
    """Return a file of a checkpoint; parts are numbered by when there were rows."""
    if name.startswith("parts/"):
        listed = sorted((checkpoint / "parts").iterdir())
        return listed[0 if name == "parts/first" else -1]
    return checkpoint / name


@pytest.mark.parametrize("damage", [remove, empty, cut, flip])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_as_it_was_written(made, checkpoint, name, damage):
    path = file_of(checkpoint, name)
    damage(path)
    check_refused(made, "parts" if "parts" in name else name.replace(".", r"\.") if damage is remove else "")


def test_rows_that_are_lost(made, checkpoint):
    """Resume without the folder of the rows so far: the run ended well, with three quarters of the rows."""
    remove(checkpoint / "parts")
    check_refused(made, r"parts holds 0 files with rows and not \d+")
    done = muntin("run", "--engine", "embedded", "ticks.toml", cwd=made)
    refused(done, "parts holds 0 files with rows", "begin anew with --fresh")
    assert go_on(made, fresh=True) == 0
    assert (made / "out.csv").read_text() == (made / "want.csv").read_text()


def test_rows_in_place_of_the_folder(made, checkpoint):
    remove(checkpoint / "parts")
    (checkpoint / "parts").write_text("no folder")
    check_refused(made, "parts holds 0 files")


def test_rows_of_two_steps_that_are_swapped(made, checkpoint):
    first, last = file_of(checkpoint, "parts/first"), sorted((checkpoint / "parts").iterdir())[1]
    whole = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(whole)
    check_refused(made, "a file in parts is not as it was written")


def test_rows_of_a_step_that_wrote_none(made, checkpoint):
    first = file_of(checkpoint, "parts/first")
    assert first.name != "part-000000.parquet"
    shutil.copy(first, first.with_name("part-000000.parquet"))
    check_refused(made, "parts holds")


@pytest.mark.parametrize("name", ["written.json", "embedded.checkpoint", "parts"])
def test_a_file_of_an_earlier_moment(made, checkpoint, name):
    remove(checkpoint / name)
    early = made / "early" / name
    shutil.copytree(early, checkpoint / name) if early.is_dir() else shutil.copy(early, checkpoint / name)
    check_refused(made, "parts holds" if name == "parts" else "are of different moments")


def test_all_of_an_earlier_moment(made):
    """Go on from a copy of the whole folder: that is what copies are for."""
    reset(made, "early")
    check_goes_on(made)


@pytest.mark.parametrize("name", ["run.json", "written.json", "embedded.checkpoint"])
def test_a_file_of_another_run(made, checkpoint, name, monkeypatch):
    """Even one at the same moment of the same pipeline over the same records."""
    kept = (checkpoint / name).read_bytes()
    with monkeypatch.context() as patched:
        kill_after(patched, LATE + 1)
        with pytest.raises(Killed):
            go_on(made, fresh=True)
    check = (checkpoint / name).read_bytes()
    assert check != kept
    (checkpoint / name).write_bytes(kept)
    check_refused(made, "is of another run")


# ---- what is written first, and removed last ----


def test_a_run_that_is_killed_as_it_begins(made, checkpoint, monkeypatch):
    """The ledger is there, and nothing else: nothing was done that could be lost."""
    begun = []

    def killed(path, facts, write=sealed.write_sealed):
        if path.name == "run.json":
            raise Killed
        begun.append(path.name)
        write(path, facts)

    remove(checkpoint)
    with monkeypatch.context() as patched:
        patched.setattr("muntin.cli.pipeline.states.write_sealed", killed)
        with pytest.raises(Killed):
            go_on(made)
    assert sorted(p.name for p in checkpoint.iterdir()) == ["lock", "written.json"]
    check_goes_on(made)


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_run_that_is_killed_as_it_ends(made, checkpoint, monkeypatch, after):
    """Its rows are all there: what is left of its checkpoint is removed by the next run."""
    left = [after]

    def counted(function):
        def killed(*arguments, **more):
            if not left[0]:
                raise Killed
            left[0] -= 1
            return function(*arguments, **more)

        return killed

    with monkeypatch.context() as patched:
        kill_after(patched, -1)

        def end(state):
            patched.setattr("muntin.cli.pipeline.states.os.replace", counted(os.replace))
            patched.setattr("muntin.cli.pipeline.states.shutil.rmtree", counted(shutil.rmtree))
            patched.setattr(Path, "unlink", counted(Path.unlink))
            state._clear()

        patched.setattr("muntin.cli.pipeline.states.State.end", end)
        with pytest.raises(Killed):
            go_on(made)
    assert (checkpoint / "ended").exists()
    assert (made / "out.csv").read_text() == (made / "want.csv").read_text()
    check_goes_on(made)


# ---- files with another content, and a checksum that fits ----


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{}", "run.json does not say which version"),
        ("[]", "run.json does not say which version"),
        ("null", "run.json does not say which version"),
        ('{"version": "1"}', "run.json does not say which version"),
        ('{"version": 2}', "run.json has format 2, which another version of muntin wrote"),
        ('{"version": 1}', "run.json has a content that does not match its checksum"),
        ('{"version": 1, "facts": 7, "checksum": ""}', "run.json has a content that does not match"),
        ('{"engine": "embedded", "digest": "", "source": null}', "run.json does not say which version"),
        ("\x00\x01", "run.json is cut off or no JSON"),
        ("[" * 100_000, "run.json is cut off or no JSON"),
    ],
)
def test_another_description_of_the_run(made, checkpoint, content, what):
    (checkpoint / "run.json").write_text(content)
    check_refused(made, what)
    (checkpoint / "run.json").write_text((made / "late" / "run.json").read_text())
    (checkpoint / "written.json").write_text(content)
    check_refused(made, what.replace("run.json", "written.json"))


def changed(facts, path, value):
    """Return facts with another value at a path of keys; `...` removes it."""
    facts = json.loads(json.dumps(facts))
    at = facts
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return facts


WRONG = [None, 7, -1, 10**30, 1.5, "", "x", [], {}, True, ..., [[]], {"x": 1}]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("run.json", ["run"]),
        ("run.json", ["source"]),
        ("run.json", ["source", "schema"]),
        ("run.json", ["source", "batches"]),
        ("run.json", ["source", "batches", 0]),
        ("run.json", ["source", "batches", 0, 0]),
        ("run.json", ["source", "batches", 0, 0, 1]),
        ("run.json", ["source", "files"]),
        ("run.json", ["source", "spec"]),
        ("run.json", ["source", "spec", "format"]),
        ("written.json", ["before"]),
        ("written.json", ["after"]),
        ("written.json", ["after", "steps"]),
        ("written.json", ["after", "files"]),
        ("written.json", ["after", "digest"]),
    ],
)
def test_facts_that_muntin_would_not_have_written(made, name, path):
    for value in WRONG:
        if (path[-1], value) in [(1, 7), (0, ...)]:
            continue  # the first batch may have begun elsewhere
        checkpoint = reset(made)
        facts = changed(sealed.read_sealed(checkpoint / name), path, value)
        sealed.write_sealed(checkpoint / name, facts)
        check_refused(made, "")


@pytest.mark.parametrize("name", ["batches", "largest", "records", "windows", "run", "operator"])
def test_a_state_that_muntin_would_not_have_written(made, name):
    for value in WRONG:
        if (name, value) in [("largest", None), ("largest", 7), ("largest", -1)]:
            continue  # it may have been so
        if name in ("records", "windows") and type(value) is int and value >= 0:
            continue
        checkpoint = reset(made)
        facts, tables = unpack((checkpoint / "embedded.checkpoint").read_bytes())
        if name == "operator":
            tables = {} if value is ... else {name: tables[name].slice(0, 0)}
        else:
            facts = changed(facts, [name], value)
        (checkpoint / "embedded.checkpoint").write_bytes(pack(facts, tables))
        check_refused(made, "")


# ---- rows that go into a folder of the user's ----


def test_changes_are_no_part_of_a_checkpoint(tmp_path, monkeypatch):
    """Whoever reads them may take them away; how far the run has come must still fit together."""
    write_ticks(tmp_path, pipeline=CHANGES)
    with monkeypatch.context() as patched:
        kill_after(patched, LATE)
        with pytest.raises(Killed):
            go_on(tmp_path)
    taken = sorted((tmp_path / "out").iterdir())[0]
    taken.unlink()
    checkpoint = tmp_path / "out.checkpoint"
    kept = (checkpoint / "embedded.checkpoint").read_bytes()
    (checkpoint / "embedded.checkpoint").unlink()
    check_refused(tmp_path, r"embedded\.checkpoint is missing")
    (checkpoint / "embedded.checkpoint").write_bytes(kept)
    assert go_on(tmp_path) == 0
    assert not taken.exists()
    assert len(list((tmp_path / "out").iterdir())) > 10

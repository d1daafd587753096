"""The folder in which a run keeps how far it has come, so that the next one goes on from there."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.cli.pipeline.config import Pipeline
from muntin.cli.pipeline.ledger import Ledger
from muntin.cli.pipeline.sealed import UnsealedError, read_sealed, write_sealed
from muntin.cli.pipeline.sinks import Parts
from muntin.cli.pipeline.sources import Source, check_description
from muntin.console.mistakes import MistakeError, one_line
from muntin.engine.state import Described, SnapshotError, inconsistent, pack, unpack
from muntin.files import PENDING, write_whole

_META, _LEDGER, _CHECKPOINT, _LOCK = "run.json", "written.json", "embedded.checkpoint", "lock"
_SPARK, _PARTS, _ENDED = "spark", "parts", "ended"
_CONTENT = (_LEDGER, _CHECKPOINT, _SPARK, _PARTS)
_OURS = (_META, *_CONTENT, _LOCK, _ENDED)
_OPERATOR = pa.schema([pa.field("state", pa.large_binary(), nullable=False)])


class NotWholeError(MistakeError):
    """A checkpoint of which something is missing, damaged or of another moment; it is left as it is."""


@dataclass(frozen=True)
class Reached:
    """How far a run on the embedded engine has come."""

    batches: int
    largest: int | None  # time, in ticks
    records: int
    windows: int
    operator: bytes | None


class State:
    """What a run keeps; one run at a time has it."""

    def __init__(self, pipeline: Pipeline, engine: str, *, fresh: bool) -> None:
        self._pipeline, self._engine = pipeline, engine
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        folder = pipeline.checkpoint
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="muntin-")
            folder = Path(self._temporary.name)
        self.folder = folder
        self._check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        self._held = False
        try:
            self._take(fresh=fresh)
        except BaseException:
            self.close()
            raise

    def _take(self, *, fresh: bool) -> None:
        """Have the folder for this run alone; read what an earlier run has left there."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            told = f"another run of {self._pipeline.path} is at work: it holds {self.folder}."
            raise MistakeError(told) from error
        self._held = True
        # A run that has come to its end says so before it removes what it kept.
        ended = (self.folder / _ENDED).exists() and not (self.folder / _META).exists()
        if fresh or ended:
            self._clear()
        self._meta = self._read_meta()
        self._ledger = None if self._meta is None else self._read_ledger(self._meta["run"])

    def _check_folder(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise MistakeError(f"{self.folder} is no folder: name another path in [checkpoint].")
        names = [path.name for path in self.folder.iterdir()] if self.folder.exists() else []
        others = [name for name in names if name.removeprefix(".").removesuffix(PENDING) not in _OURS]
        if others:
            raise MistakeError(
                f"the folder {self.folder} holds {others[0]!r}, which is no part of a checkpoint: "
                "name another path in [checkpoint]."
            )

    def _read_meta(self) -> dict[str, Any] | None:
        try:
            meta = read_sealed(self.folder / _META)
        except FileNotFoundError:
            self._check_nothing_is_left()
            return None
        except UnsealedError as error:
            raise self.not_whole(f"{_META} {error}") from error
        if set(meta) != {"run", "engine", "digest", "source"} or not isinstance(meta["run"], str):
            raise self.not_whole(f"{_META} does not describe a run")
        if meta["engine"] != self._engine:
            raise MistakeError(
                f"a run with --engine {meta['engine']} was interrupted, and its checkpoint is in "
                f"{self.folder}: go on with that engine, or begin anew with --fresh."
            )
        if meta["digest"] != self._pipeline.digest:
            raise MistakeError(
                f"{self._pipeline.path} has changed since the run whose checkpoint is in {self.folder}: "
                "undo that, or begin anew with --fresh."
            )
        self._check_source(Described(meta["source"], f"{_META}: source"))
        return meta

    def _check_source(self, described: Described) -> None:
        """Refuse a description of a source that is none of this pipeline."""
        try:
            if (self._pipeline.source["format"] == "kafka") != described.missing:
                described.wrong("that of the pipeline")
            if not described.missing:
                check_description(described, self._pipeline.source)
        except SnapshotError as error:
            raise self.damaged(error) from error

    def _check_nothing_is_left(self) -> None:
        """Refuse what a run has kept if the file is missing that says of which run it is."""
        left = [name for name in _CONTENT if (self.folder / name).exists()]
        if left == [_LEDGER] and not self._read_ledger(None).begun:
            return  # that run was killed as it began: the ledger is written first
        if left:
            raise self.not_whole(f"{_META} is missing")

    def _read_ledger(self, run: str | None) -> Ledger:
        """Return what rows a run has written."""
        try:
            ledger = Ledger.read(self.folder / _LEDGER)
        except FileNotFoundError as error:
            raise self.not_whole(f"{_LEDGER} is missing") from error
        except UnsealedError as error:
            raise self.not_whole(f"{_LEDGER} {error}") from error
        except SnapshotError as error:
            raise self.damaged(error) from error
        if run not in (None, ledger.run):
            raise self.not_whole(f"{_LEDGER} is of another run")
        return ledger

    @property
    def resumes(self) -> bool:
        """Tell whether an earlier run goes on."""
        return self._meta is not None

    def source(self, opened: Source | None) -> Source | None:
        """Return the source as it was cut when the run began; it begins now if there is no such run."""
        if self._meta is None:
            self._clear()
            run = uuid.uuid4().hex
            self._ledger = Ledger.begin(self.folder / _LEDGER, run)
            described = None if opened is None else opened.described()
            meta = {"engine": self._engine, "digest": self._pipeline.digest, "source": described}
            write_sealed(self.folder / _META, {"run": run, **meta})
            return opened
        if self._meta["source"] is None:
            return None
        source = Source.from_description(self._meta["source"])
        changed = source.changed_file()
        if changed is not None:
            raise MistakeError(
                f"{changed} has changed since the run was interrupted: begin anew with --fresh."
            )
        return source

    # ---- rows ----

    @property
    def ledger(self) -> Ledger:
        """Return which rows the run has written."""
        assert self._ledger is not None
        return self._ledger

    @property
    def parts(self) -> Parts:
        """Return where changes are kept until they are folded."""
        return Parts(self.folder / _PARTS, "parquet")

    def go_on(self, steps: int, *, with_parts: bool) -> None:
        """Go on after so many steps, if all that these have written is there."""
        entry = self.ledger.at(steps)
        if entry is None:
            name = _CHECKPOINT if self._engine == "embedded" else _SPARK
            how = "is missing"
            if (self.folder / name).exists():
                how = f"and {_LEDGER} are of different moments"
            raise self.not_whole(f"{name} {how}")
        if with_parts:
            found = self.parts.entry(steps)
            if found.files != entry.files:
                raise self.not_whole(f"{_PARTS} holds {found.files} files with rows and not {entry.files}")
            if found.digest != entry.digest:
                raise self.not_whole(f"a file in {_PARTS} is not as it was written")
        self.ledger.go_on(entry)

    # ---- how far it has come ----

    @property
    def spark(self) -> Path:
        """Return the folder of Spark's checkpoint."""
        return (self.folder / _SPARK).absolute()

    def committed(self) -> int:
        """Return how many micro-batches Spark has done: it does the last one again that it has not noted."""
        planned, done = (
            max((int(p.name) for p in (self.spark / log).glob("[0-9]*") if p.name.isdecimal()), default=-1)
            for log in ("offsets", "commits")
        )
        if planned - done not in (0, 1):
            least = f"commits/{planned - 1}" if planned > done else f"offsets/{done}"
            raise self.not_whole(f"{_SPARK}/{least} is missing")
        return done + 1

    def save(self, reached: Reached) -> None:
        """Write how far the run has come, in one step."""
        facts = {"batches": reached.batches, "largest": reached.largest, "run": self.ledger.run}
        facts |= {"records": reached.records, "windows": reached.windows}
        blob = pack(facts, {"operator": pa.table([[reached.operator]], schema=_OPERATOR)})
        write_whole(self.folder / _CHECKPOINT, lambda file: file.write(blob))

    def reached(self) -> Reached:
        """Return how far the run had come."""
        try:
            facts, tables = unpack((self.folder / _CHECKPOINT).read_bytes())
        except FileNotFoundError:
            return Reached(0, None, 0, 0, None)
        except SnapshotError as error:
            raise self.damaged(error) from error
        return self._checked(Described(facts, _CHECKPOINT), tables.get("operator"))

    def _checked(self, facts: Described, operator: pa.Table | None) -> Reached:
        """Return how far a run had come, if all that was described fits together."""
        try:
            if facts["run"].text() != self.ledger.run:
                raise self.not_whole(f"{_CHECKPOINT} is of another run")
            of = len(self._meta["source"]["batches"]) if self._meta is not None else 0
            batches = facts["batches"].whole(0, of)
            records, windows = (facts[name].whole(0) for name in ("records", "windows"))
            largest = None if facts["largest"].missing else facts["largest"].whole(-(2**62), 2**62)
            if operator is None or operator.schema != _OPERATOR or operator.num_rows != 1:
                raise inconsistent("it lacks the state of the operator")
        except SnapshotError as error:
            raise self.damaged(error) from error
        return Reached(batches, largest, records, windows, operator["state"][0].as_py())

    # ---- what is said of it ----

    def damaged(self, error: SnapshotError) -> NotWholeError:
        """Return what is said of a checkpoint whose content is not as it was written."""
        return self._refused(f"is damaged ({one_line(error).rstrip('.')}): ")

    def cannot_be_read(self, why: str) -> NotWholeError:
        """Return what is said of a checkpoint from which an engine cannot go on."""
        return self._refused(f"cannot be read by Spark ({why.rstrip('.')}): ")

    def not_whole(self, what: str) -> NotWholeError:
        """Return what is said of a checkpoint that lacks something."""
        return self._refused(f"is not whole, since {what}: ")

    def _refused(self, how: str) -> NotWholeError:
        return NotWholeError(
            f"the checkpoint in {self.folder} {how}restore it from a copy, or begin anew with --fresh."
        )

    # ---- the end ----

    def give_up(self) -> None:
        """Leave nothing of a run that failed before its first checkpoint: there is nothing to go on from.

        Where a run on Kafka began to read is something, as nobody can tell it again.
        """
        if self._pipeline.source["format"] != "kafka" and not (self._ledger is None or self._ledger.begun):
            self._clear()

    def _clear(self) -> None:
        """Remove what an earlier run left; what says that there is one goes first."""
        if (self.folder / _META).exists():
            os.replace(self.folder / _META, self.folder / _ENDED)
        for name in (*_CONTENT, _ENDED):
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for path in self.folder.glob(f".*{PENDING}"):
            path.unlink()

    def end(self) -> None:
        """Leave nothing: the run has come to its end, and the next one begins anew."""
        self._clear()

    def close(self) -> None:
        """Let others have it; where no run has begun, or one has ended, nothing is left."""
        if self._held and [path.name for path in self.folder.iterdir()] == [_LOCK]:
            (self.folder / _LOCK).unlink()
            self.folder.rmdir()
        os.close(self._lock)
        if self._temporary is not None:
            self._temporary.cleanup()

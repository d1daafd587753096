"""The folder in which a run keeps how far it has come, so that the next one goes on from there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.cli.config import Pipeline
from muntin.cli.mistakes import MistakeError, one_line
from muntin.cli.sinks import Parts
from muntin.cli.sources import Source
from muntin.files import PENDING, write_whole
from muntin.slicing.envelope import SnapshotError, pack, unpack

_META, _CHECKPOINT, _LOCK, _SPARK, _PARTS = "run.json", "embedded.checkpoint", "lock", "spark", "parts"
_OURS = (_META, _CHECKPOINT, _LOCK, _SPARK, _PARTS)


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
            self._meta = self._taken(fresh=fresh)
        except BaseException:
            self.close()
            raise

    def _taken(self, *, fresh: bool) -> dict[str, Any] | None:
        """Have the folder for this run alone; return what an earlier run has left there."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            told = f"another run of {self._pipeline.path} is at work: it holds {self.folder}."
            raise MistakeError(told) from error
        self._held = True
        if fresh:
            self._clear()
        return self._read_meta()

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
            meta: dict[str, Any] = json.loads((self.folder / _META).read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise MistakeError(f"{self.folder / _META} is damaged: begin anew with --fresh.") from error
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
        return meta

    @property
    def resumes(self) -> bool:
        """Tell whether an earlier run goes on."""
        return self._meta is not None

    def source(self, opened: Source | None) -> Source | None:
        """Return the source as it was cut when the run began; it begins now if there is no such run."""
        if self._meta is None:
            self._clear()
            described = None if opened is None else opened.described()
            meta = {"engine": self._engine, "digest": self._pipeline.digest, "source": described}
            content = json.dumps(meta).encode()
            write_whole(self.folder / _META, lambda file: file.write(content))
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

    @property
    def parts(self) -> Parts:
        """Return where changes are kept until they are folded."""
        return Parts(self.folder / _PARTS, "parquet")

    @property
    def spark(self) -> Path:
        """Return the folder of Spark's checkpoint."""
        return (self.folder / _SPARK).absolute()

    def save(self, reached: Reached) -> None:
        """Write how far the run has come, in one step."""
        facts = {"batches": reached.batches, "largest": reached.largest}
        facts |= {"records": reached.records, "windows": reached.windows}
        blob = pack(facts, {"operator": pa.table({"state": pa.array([reached.operator], pa.large_binary())})})
        write_whole(self.folder / _CHECKPOINT, lambda file: file.write(blob))

    def reached(self) -> Reached:
        """Return how far the run had come."""
        try:
            facts, tables = unpack((self.folder / _CHECKPOINT).read_bytes())
        except FileNotFoundError:
            return Reached(0, None, 0, 0, None)
        except SnapshotError as error:
            raise self.damaged(error) from error
        return Reached(**facts, operator=tables["operator"]["state"][0].as_py())

    def damaged(self, error: SnapshotError) -> MistakeError:
        """Return what is said of a checkpoint that cannot be read."""
        return MistakeError(
            f"the checkpoint in {self.folder} is damaged ({one_line(error).rstrip('.')}): restore it "
            "from a copy, or begin anew with --fresh."
        )

    def give_up(self) -> None:
        """Leave nothing of a run that failed before its first checkpoint: there is nothing to go on from.

        Where a run on Kafka began to read is something, as nobody can tell it again.
        """
        reached = [self.folder / _CHECKPOINT, *self.spark.glob("commits/[0-9]*")]
        if self._pipeline.source["format"] != "kafka" and not any(path.exists() for path in reached):
            self._clear()

    def _clear(self) -> None:
        """Remove what an earlier run left; what says that there is one goes first."""
        for name in _OURS:
            path = self.folder / name
            if name == _LOCK:
                continue
            if path.is_dir():
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
        if self._held and not (self.folder / _META).exists():
            (self.folder / _LOCK).unlink()
            self.folder.rmdir()
        os.close(self._lock)
        if self._temporary is not None:
            self._temporary.cleanup()

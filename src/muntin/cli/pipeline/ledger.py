"""Which rows a run has written: how many files, and a digest of all of them, after each step.

Rows and how far a run has come are written one after the other. A run that is killed in between does its last
step again, so that the ledger has two entries: as it was before the last step, and after it.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from muntin.cli.pipeline.sealed import read_sealed, write_sealed
from muntin.engine.state import Described


@dataclass(frozen=True)
class Entry:
    """The rows of all steps before one."""

    steps: int = 0
    files: int = 0
    digest: str = ""

    @classmethod
    def of(cls, described: Described) -> Entry:
        """Return the entry that was described."""
        steps, files = (described[name].whole(0) for name in ("steps", "files"))
        return cls(steps, files, described["digest"].text())

    def plus(self, number: int, file: str | None) -> Entry:
        """Return the entry after a step that wrote a file with this digest, or None."""
        if file is None:
            return Entry(number + 1, self.files, self.digest)
        digest = hashlib.sha256(f"{self.digest} {number} {file}".encode()).hexdigest()
        return Entry(number + 1, self.files + 1, digest)


class Ledger:
    """The entries before and after the last step, in a file."""

    def __init__(self, path: Path, run: str, before: Entry, after: Entry) -> None:
        self._path, self._run = path, run
        self._before, self._after = before, after

    @classmethod
    def begin(cls, path: Path, run: str) -> Ledger:
        """Return the ledger of a run that has written nothing yet, and write it."""
        ledger = cls(path, run, Entry(), Entry())
        ledger._write()
        return ledger

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Return the ledger of a file; UnsealedError or SnapshotError if it is not as it was written."""
        facts = Described(read_sealed(path), path.name)
        return cls(path, facts["run"].text(), Entry.of(facts["before"]), Entry.of(facts["after"]))

    @property
    def run(self) -> str:
        """Whose rows they are."""
        return self._run

    @property
    def begun(self) -> bool:
        """Whether a step was done."""
        return self._after.steps > 0

    def at(self, steps: int) -> Entry | None:
        """Return the entry after so many steps, if a run can go on from there."""
        return next((entry for entry in (self._after, self._before) if entry.steps == steps), None)

    def go_on(self, entry: Entry) -> None:
        """Forget what was written after an entry."""
        self._before = self._after = entry

    def note(self, number: int, file: str | None) -> None:
        """Note the rows of a step, the last one again or one after it."""
        self._before = self._after if self._after.steps <= number else self._before
        self._after = self._before.plus(number, file)
        self._write()

    def _write(self) -> None:
        entries = {"before": asdict(self._before), "after": asdict(self._after)}
        write_sealed(self._path, {"run": self._run, **entries})

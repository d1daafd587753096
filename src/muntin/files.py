"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

PENDING = ".pending"


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let a file be written beside its place, and put it there when it is whole and on disk.

    The file beside it is always a new one, with a name that the next writer finds if this one is killed.
    Whatever somebody has put there, such as a link to another file, is removed and not written to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder, "greeting"), lambda file: file.write(b"hello"))
    ...     Path(folder, "greeting").read_text()
    'hello'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pending = path.with_name(f".{path.name}{PENDING}")
    pending.unlink(missing_ok=True)
    try:
        write_new(pending, write)
        os.replace(pending, path)
    except BaseException:
        pending.unlink(missing_ok=True)
        raise


def write_new(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let a file be written that is not there yet, and wait until it is on disk; no link is followed."""
    with path.open("xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())

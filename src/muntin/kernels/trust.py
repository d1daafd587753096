"""Whether code may be loaded from a directory: nobody but the user and root can change what lies there.

Numba's index files are pickled, and its data files hold machine code: whoever can write them, or put another
directory in the place of theirs, has code run as the user who loads them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_ROOT = 0
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH  # a group counts as others
_THROUGH = stat.S_IXGRP | stat.S_IXOTH
_CODE = (".nbi", ".nbc")
_MOST_LINKS = 40  # as for Linux: more of them go round in circles


def doubt(directory: Path) -> str | None:
    """Return why nothing may be loaded from a directory; None if it may, or if there is none yet.

    Where files have no owners by number (Windows), all are trusted: directories of a user are private there.
    """
    if not hasattr(os, "geteuid"):
        return None
    trusted = (_ROOT, os.geteuid())
    try:
        way, exists = list(_way(directory.absolute())), directory.exists()
    except OSError as error:
        return f"{error.filename or directory} cannot be looked at ({error.strerror})"
    for step, (path, status) in enumerate(way, 1):
        if status.st_uid not in trusted:
            return f"{path} belongs to another user"
        # In a directory with the sticky bit, such as /tmp, nobody can replace what belongs to others.
        itself = exists and step == len(way)
        sticky = bool(status.st_mode & stat.S_ISVTX) and not itself
        if status.st_mode & _BY_OTHERS and not sticky and not stat.S_ISLNK(status.st_mode):
            return f"others can write to {path}"
    return _doubtful_file(directory, trusted)


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Return the directories and links through which the system gets to a path, as far as there are any."""
    at, left, links = Path(path.anchor), list(path.parts[:0:-1]), 0
    yield at, at.lstat()
    while left:
        name = left.pop()
        at = at.parent if name == os.pardir else at / name
        try:
            status = at.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        yield at, status
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = Path(os.readlink(at))
            at = Path(target.anchor) if target.is_absolute() else at.parent
            left += target.parts[:0:-1] if target.is_absolute() else target.parts[::-1]


def _doubtful_file(directory: Path, trusted: tuple[int, ...]) -> str | None:
    """Return why a file of code in a directory may not be loaded; None if all may."""
    try:
        entered = bool(directory.stat().st_mode & _THROUGH)  # else, nobody else gets at the files
        names = [name for name in os.listdir(directory) if name.endswith(_CODE)]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"{directory} cannot be looked at ({error.strerror})"
    for path in map(directory.joinpath, names):
        try:
            status = path.lstat()
        except FileNotFoundError:  # another process has just replaced it
            continue
        if stat.S_ISLNK(status.st_mode):
            return f"{path} is a link"
        if status.st_uid not in trusted:
            return f"{path} belongs to another user"
        if entered and status.st_mode & _BY_OTHERS:
            return f"others can write to {path}"
    return None


def make_private(directory: Path) -> None:
    """Make a directory, with those above it that are missing, which nobody else can even look into."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)

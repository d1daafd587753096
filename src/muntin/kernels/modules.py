"""Generated modules on disk: content-hashed, written whole or not at all, loaded once a process."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

_STAMP = 1_000_000_000  # numba keys its cache by the file's time; content is in the name, so time is fixed


class NotCompilableError(Exception):
    """This aggregate or these values cannot be compiled; the object path takes them."""


class DamagedCodeError(Exception):
    """The machine code that was kept for a module cannot be loaded."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(f"the code kept for {module.__name__} is damaged")
        self.module = module


def cache_directory() -> Path:
    """Return where generated modules and their machine code are kept: $MUNTIN_CACHE_DIR, or for the user."""
    named = os.environ.get("MUNTIN_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "muntin"


def load(name: str, text: str) -> types.ModuleType | None:
    """Return the module with this text, from disk if possible; None where no file can be kept."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    full_name = f"muntin_{name}_{digest}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    path = _written(cache_directory() / f"{full_name}.py", text)
    if path is None:
        return None
    module = types.ModuleType(full_name)
    module.__file__ = str(path)
    # Numba looks the module up by name when it loads machine code that an earlier process has kept.
    sys.modules[full_name] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def compile_for(function: Any, arguments: tuple[Any, ...]) -> None:
    """Have Numba load or make the machine code of a function for arguments of these types."""
    from numba.core.errors import NumbaError

    if arguments in function.overloads:
        return
    try:
        function.compile(arguments)
    except NumbaError as error:
        raise NotCompilableError(str(error).strip().splitlines()[0]) from error
    except Exception as error:
        # Numba does not say how it fails on kept code that was cut short. Where there is none, this
        # cannot be the reason; otherwise the caller compiles once more without it, and gets the true
        # error again if this was another one.
        module = sys.modules.get(function.py_func.__module__)
        if module is None or not list(_kept_code(module)):
            raise
        raise DamagedCodeError(module) from error


def _kept_code(module: types.ModuleType) -> list[Path]:
    path = Path(str(getattr(module, "__file__", "")))
    return list(path.parent.glob(f"__pycache__/{path.stem}.*.nb?"))


def forget(module: types.ModuleType) -> None:
    """Drop a module and the machine code kept for it, so that it is compiled anew."""
    sys.modules.pop(module.__name__, None)
    for kept in _kept_code(module):
        kept.unlink(missing_ok=True)


def _written(path: Path, text: str) -> Path | None:
    """Make sure that the file holds the text; None if it cannot.

    Several processes may do this at once: each moves a file of its own, with the same content and the
    same time, into place. One that a crash cut short does not hold the text and is replaced.
    """
    try:
        if path.exists() and path.read_text() == text:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__pycache__").mkdir(exist_ok=True)
        if not os.access(path.parent / "__pycache__", os.W_OK):
            return None
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.utime(temporary, (_STAMP, _STAMP))
        os.replace(temporary, path)
    except OSError:  # read-only, full, or not a directory: the caller compiles in memory
        return None
    return path

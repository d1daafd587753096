"""Generated modules on disk: content-hashed, written whole or not at all, loaded once a process."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.algebra.aggregate import Function
from muntin.kernels.source import NoSourceError, write_out

_STAMP = 1_000_000_000  # numba keys its cache by the file's time; content is in the name, so time is fixed


class NotCompilableError(Exception):
    """This aggregate or these values cannot be compiled; the object path takes them."""


def cache_directory() -> Path:
    """Return where generated modules and their machine code are kept: $MUNTIN_CACHE_DIR, or for the user."""
    named = os.environ.get("MUNTIN_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "muntin"


class Code:
    """Source text whose functions Numba compiles: from a file where one can be kept, else in memory.

    Functions in the text that are to be kept on disk say `cache=True`. `objects` are names that the text
    uses but does not define; they cannot be kept.
    """

    def __init__(self, name: str, text: str, objects: Mapping[str, Any] | None = None) -> None:
        self._name = name
        self._text = text
        self._objects = dict(objects or {})
        self._load()

    def _load(self) -> None:
        self._module = load(self._name, self._text) if not self._objects else None
        self._namespace = self._objects
        if self._module is not None:
            self._namespace = self._module.__dict__
        else:
            text = self._text.replace("cache=True", "cache=False")
            exec(compile(text, f"<muntin {self._name}>", "exec"), self._namespace)

    def function(self, name: str, types: tuple[Any, ...]) -> Any:
        """Return a function, with machine code for arguments of these types."""
        from numba.core.errors import NumbaError

        function = self._namespace[name]
        if types in function.overloads:
            return function
        try:
            function.compile(types)
        except NumbaError as error:
            raise NotCompilableError(str(error).strip().splitlines()[0]) from error
        except Exception:
            # Numba does not say how it fails on kept code that was cut short. Without any, compiling
            # once more either mends that or raises the true error.
            if not self._forget():
                raise
            self._load()
            return self.function(name, types)
        return function

    def _forget(self) -> bool:
        """Drop the machine code that is kept for this text; tell whether there was any."""
        if self._module is None:
            return False
        path = Path(str(self._module.__file__))
        kept = list(path.parent.glob(f"__pycache__/{path.stem}.*.nb?"))
        for file in kept:
            file.unlink(missing_ok=True)
        sys.modules.pop(self._module.__name__, None)
        return bool(kept)


def functions(name: str, plain: Mapping[str, Function]) -> Code:
    """Return plain functions as code, each compiled by itself."""
    from numba import njit

    try:
        text = "from numba import njit\n" + write_out(plain, "@njit(cache=True, nogil=True)")
    except NoSourceError:
        return Code(name, "", {key: f if hasattr(f, "py_func") else njit(f) for key, f in plain.items()})
    return Code(name, text)


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

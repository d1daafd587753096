"""Generated modules on disk: content-hashed, written whole or not at all, loaded once a process."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from muntin.algebra.aggregate import Function
from muntin.kernels.source import NoSourceError, write_out
from muntin.kernels.trust import doubt, make_private

# Kept code holds copies of the intrinsics, so their text is part of what it is named after. It is a resource
# because muntin may lie in an archive.
_TEXT = resources.files("muntin.kernels").joinpath("intrinsics.py").read_bytes()
INTRINSICS = hashlib.sha256(_TEXT).hexdigest()[:12]
_LOADING = threading.RLock()
_STAMP = 1_000_000_000  # numba keys its cache by the file's time; content is in the name, so time is fixed
_KEPT = "__pycache__"  # where Numba keeps machine code beside a module


class NotCompilableError(Exception):
    """This aggregate or these values cannot be compiled; the object path takes them."""


def cache_directory() -> Path | None:
    """Return where generated modules and their machine code are kept; None if there is no such place.

    It is $MUNTIN_CACHE_DIR, else the cache directory of the user, else one of the user's own in the
    directory for temporary files: the first that can be made and that nobody else can write to. One that
    is not safe is warned about.
    """
    directory, refused = choose_directory()
    if refused:
        _warn(f"{'; '.join(refused)}. It is kept in {directory or 'memory only'} instead")
    return directory


def choose_directory() -> tuple[Path | None, tuple[str, ...]]:
    """Return the directory of generated modules, and why others, which come first, are not safe."""
    with _LOADING:
        return _first_safe(tuple(_places()))


@cache
def _first_safe(places: tuple[Path, ...]) -> tuple[Path | None, tuple[str, ...]]:
    refused: list[str] = []
    directory = next((d for d in map(_real, places) if _prepared(d, refused)), None)
    return directory, tuple(refused)


def _real(place: Path) -> Path:
    """Return a path without links, which somebody could change between two looks at them."""
    return Path(os.path.realpath(place))


def _prepared(directory: Path, refused: list[str]) -> bool:
    """Make a directory ready to keep code in; tell whether it is. One that is not safe is noted."""
    why = doubt(directory) or doubt(directory / _KEPT)
    if why is None:
        try:
            make_private(directory / _KEPT)
        except OSError:  # read-only, full, or not a directory
            return False
        why = doubt(directory) or doubt(directory / _KEPT)  # somebody may have been faster
    if why is not None:
        refused.append(f"machine code is not kept in {directory}, since {why}")
    return why is None


def _warn(what: str) -> None:
    advice = "take the right to write from others (chmod -R go-w), or name another directory in"
    warnings.warn(f"{what}: {advice} MUNTIN_CACHE_DIR.", UserWarning, stacklevel=2)


def _places() -> Iterator[Path]:
    """Return directories for generated modules, the one to be preferred first."""
    named = os.environ.get("MUNTIN_CACHE_DIR")
    if named:
        yield Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(base):
        yield Path(base) / "muntin"
    if hasattr(os, "geteuid"):
        yield Path(tempfile.gettempdir()) / f"muntin-{os.geteuid()}"


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
        if self._module is None:
            self._define_in_memory()
        else:
            self._namespace = self._module.__dict__

    def _define_in_memory(self) -> None:
        self._module = None
        self._namespace = dict(self._objects)
        text = self._text.replace("cache=True", "cache=False")
        exec(compile(text, f"<muntin {self._name}>", "exec"), self._namespace)

    def function(self, name: str, types: tuple[Any, ...]) -> Any:
        """Return a function, with machine code for arguments of these types."""
        from numba.core.errors import NumbaError

        function = self._namespace[name]
        if not hasattr(function, "overloads"):
            raise NotCompilableError("Numba is switched off")
        if types in function.overloads:
            return function
        try:
            function.compile(types)
        except NumbaError as error:
            raise NotCompilableError(str(error).strip().splitlines()[0]) from error
        except Exception:
            # Numba does not say how it fails on kept code that was cut short. Compiling once more
            # without any either mends that or raises the true error.
            if self._module is None:
                raise
            self._forget(self._module)
            self._define_in_memory()
            return self.function(name, types)
        return function

    @staticmethod
    def _forget(module: types.ModuleType) -> None:
        """Drop the machine code that is kept for a module, so that the next process makes it anew."""
        path = Path(str(module.__file__))
        for file in path.parent.glob(f"{_KEPT}/{path.stem}.*.nb?"):
            file.unlink(missing_ok=True)
        sys.modules.pop(module.__name__, None)


def functions(name: str, plain: Mapping[str, Function]) -> Code:
    """Return plain functions as code, each compiled by itself."""
    try:
        decorator = "@njit(cache=True, nogil=True, no_cfunc_wrapper=True)"  # nobody calls them from C
        header = f'"""Loops of muntin, with intrinsics {INTRINSICS}."""\nfrom numba import njit\n'
        text = header + write_out(plain, decorator)
    except NoSourceError:
        return Code(name, "", as_objects(plain))
    return Code(name, text)


def as_objects(plain: Mapping[str, Function]) -> dict[str, Any]:
    """Return functions without source as Numba's: they compile as they are, and are not kept."""
    from numba import njit

    for name, function in plain.items():
        if not isinstance(getattr(function, "py_func", function), types.FunctionType):
            raise NotCompilableError(f"{name} is {function!r}, not a Python function")
    return {name: f if hasattr(f, "py_func") else njit(f) for name, f in plain.items()}


def load(name: str, text: str) -> types.ModuleType | None:
    """Return the module with this text, from disk if possible; None where no file can be kept."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    full_name = f"muntin_{name}_{digest}"
    with _LOADING:
        if full_name in sys.modules:
            return sys.modules[full_name]
        directory = cache_directory()
        path = _written(directory / f"{full_name}.py", text) if directory else None
        if path is None:
            return None
        module = types.ModuleType(full_name)
        module.__file__ = str(path)
        # Numba looks the module up by name when it loads machine code that an earlier process has kept.
        sys.modules[full_name] = module
        try:
            exec(compile(text, str(path), "exec"), module.__dict__)
            safe = _safe(module)
        except RuntimeError:  # Numba finds no place to keep code in, as beside a file that is read-only
            safe = False
        except BaseException:
            del sys.modules[full_name]  # half a module must not be found by the next look
            raise
        if not safe:
            del sys.modules[full_name]
        return module if safe else None


def _safe(module: types.ModuleType) -> bool:
    """Tell whether machine code may be loaded from where Numba keeps that of a module.

    Numba may have chosen another place than beside its file: $NUMBA_CACHE_DIR, or one in the cache directory
    of the user. It reads nothing before a function is compiled.
    """
    stats = [value.stats for value in vars(module).values() if hasattr(value, "overloads")]
    for place in {Path(some.cache_path) for some in stats if some.cache_path is not None}:
        why = _doubt(place)
        if why is not None:
            _warn(f"machine code is not kept in {place}, where Numba would keep it, since {why}")
            return False
    return True


_doubt = cache(doubt)


def _written(path: Path, text: str) -> Path | None:
    """Make sure that the file holds the text; None if it cannot.

    Several processes may do this at once: each moves a file of its own, with the same content and the
    same time, into place. One that a crash cut short does not hold the text and is replaced.
    """
    content = text.encode()
    temporary = None
    try:
        if path.exists() and path.read_bytes() == content:
            return path
        make_private(path.parent / _KEPT)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.utime(temporary, (_STAMP, _STAMP))
        os.replace(temporary, path)
    except OSError:  # read-only, full, or not a directory: the caller compiles in memory
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        return None
    return path

"""Mistakes: what a user can put right, in one sentence that says what, where and what to do."""

from __future__ import annotations

import difflib
import errno
import importlib.util
from collections.abc import Iterable

OK, FAILED, MISTAKEN, INTERRUPTED = 0, 1, 2, 130  # exit codes; the last is what shells expect after Ctrl-C
SPARK = ("pyspark", "pandas", "google.protobuf")  # the modules of the extra


class MistakeError(Exception):
    """Something that a user can put right; its text is one sentence."""


def installed(module: str) -> bool:
    """Tell whether a module could be imported, without importing it.

    >>> installed("json.decoder"), installed("no.such")
    (True, False)
    """
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that it is in
        return False


def need(what: str, extra: str, modules: Iterable[str], otherwise: str = "") -> None:
    """Refuse work for which a package of an extra is not installed, and say how to get it."""
    for module in modules:
        if not installed(module):
            advice = f"pip install 'muntin[{extra}]'{otherwise}"
            raise MistakeError(f"{what} needs {module}, which is not installed: {advice}.")


def close_to(name: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known name, or at all of them.

    >>> close_to("sped", ["car", "speed"])
    "did you mean 'speed'?"
    >>> close_to("x", ["car", "speed"])
    'there are car, speed.'
    """
    names = list(known)
    folded = {other.lower(): other for other in reversed(names)}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}?" if near else f"there are {', '.join(names) or 'none'}."


def one_line(error: BaseException) -> str:
    """Return what an error says as one line; a KeyError says it in quotes that do not belong to it."""
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    return " ".join(str(said).split()) or type(error).__name__


def full_disk(error: BaseException) -> bool:
    """Tell whether there was no room left: Arrow and Java may only say so in words."""
    return getattr(error, "errno", None) == errno.ENOSPC or "No space left on device" in str(error)

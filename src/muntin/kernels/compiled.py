"""Plain loops of a module, compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Compiled:
    """The loops of a module by name; the arguments of a loop are always of the same types."""

    def __init__(self, name: str, *loops: Callable[..., Any]) -> None:
        self._name = name
        self._loops = {loop.__name__: loop for loop in loops}
        self._code: Any = None
        self._ready: dict[str, Any] = {}

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Call a loop."""
        loop = self._ready.get(name)
        if loop is None:
            loop = self._ready[name] = self._compile(name, arguments)
        return loop(*arguments)

    def _compile(self, name: str, arguments: tuple[Any, ...]) -> Any:
        import numba

        from muntin.kernels import modules

        if self._code is None:
            self._code = modules.functions(self._name, self._loops)
        type_of: Any = numba.typeof
        return self._code.function(name, tuple(type_of(argument) for argument in arguments))

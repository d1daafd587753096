"""muntin bench: the benchmarks of a checkout."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from muntin.console.mistakes import FAILED, OK, MistakeError, close_to, need

_CHECKOUT = Path(__file__).parents[4]


def bench(figures: list[str], *, listed: bool) -> int:
    """Run benchmarks, all of them into docs/benchmarks.md; return the exit code."""
    root = _root()
    need("a benchmark", "bench,sketches", ("polars", "river", "matplotlib", "datasketches"))
    sys.path.insert(0, str(root))
    package = importlib.import_module("benchmarks.__main__")
    modules: dict[str, ModuleType] = {m.__name__.rpartition(".")[2]: m for m in package.MODULES}
    if listed:
        for name, module in modules.items():
            print(f"{name:16} {(module.__doc__ or '').splitlines()[0]}")
        return OK
    for name in figures:
        if name not in modules:
            raise MistakeError(f"there is no benchmark {name!r}; {close_to(name, modules)}")
    if not figures:
        return int(package.main())
    held = True
    for name in figures:
        section, kept = modules[name].run()
        print(section)
        held = held and kept
    return OK if held else FAILED


def _root() -> Path:
    """Return where benchmarks are: in the checkout that muntin is in, or in this folder."""
    for root in (_CHECKOUT, Path.cwd()):
        if (root / "benchmarks" / "comparisons.py").is_file():
            return root
    raise MistakeError(
        "benchmarks are in muntin's repository, not in the package: clone it, and run muntin bench in it."
    )

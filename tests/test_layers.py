"""The layout of the source, held to its rules: order of imports, faces, sizes, privacy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import muntin

ROOT = Path(muntin.__file__).parent
# Each row may import from rows above it, and from itself.
LAYERS = (
    ("files", "columnar", "algebra"),
    ("expressions",),
    ("windows",),
    ("kernels",),
    ("swag",),
    ("settings",),
    ("engine.tuning", "engine.transaction", "engine.user_errors", "engine.loops", "engine.rows"),
    ("engine.plan",),
    ("engine.ingest",),
    ("engine.partials",),
    ("engine.store",),
    ("engine.listers",),
    ("engine.slices",),
    ("engine.output",),
    ("engine.state",),
    ("engine",),
    ("lanes",),
    ("metrics",),
    ("running_stream",),
    ("results",),
    ("folding", "reading", "warming"),
    ("loop",),
    ("streaming",),
    ("operator", "feature_rows"),
    ("aggregation",),
    ("streamsql", "techniques", "generate"),
    ("__init__",),
    ("console",),
    ("dashboard",),
    ("spark",),
    ("demo",),
    ("cli",),
)
# Folders with a file for each algorithm; the others have at most MODULES.
WIDE = {"swag": 18, "kernels/templates": 18}
MODULES, LINES = 14, 500
# Of named tuples and of Python's frames, documented in spite of their names; and of PySpark, which has no
# other way to look at a plan.
PUBLIC_BY_CONTRACT = {"_fields", "_make", "_current_frames", "_jdf"}


def _modules() -> dict[str, Path]:
    """Return all modules by name, without the name of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and parts[1:] else parts)] = path
    return found


MODULE_PATHS = _modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULE_PATHS.items()}


def _layer(module: str) -> int:
    """Return the number of the layer with the longest name that the module begins with."""
    fits = [
        (len(name), k)
        for k, names in enumerate(LAYERS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    ]
    assert fits, f"{module} is in no layer: add it to LAYERS."
    return max(fits)[1]


def _imports(module: str, *, for_types: bool = False) -> Iterator[tuple[str, str]]:
    """Return the modules of ours that a module imports, with the names that it takes from them.

    What is imported only for the type checker is left out unless asked for.
    """
    skipped: set[ast.AST] = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped.update(ast.walk(node))
    for node in ast.walk(TREES[module]):
        if not isinstance(node, ast.ImportFrom) or (node in skipped and not for_types):
            continue
        source = node.module or ""
        if source != "muntin" and not source.startswith("muntin."):
            continue
        inner = source.removeprefix("muntin").removeprefix(".")
        for alias in node.names:
            whole = f"{inner}.{alias.name}".removeprefix(".")
            yield (whole, "") if whole in MODULE_PATHS else (inner or "__init__", alias.name)


def test_modules_import_only_from_their_own_layer_and_those_before() -> None:
    wrong = [
        f"{module} imports {source}"
        for module in MODULE_PATHS
        for source, _ in _imports(module)
        if _layer(source) > _layer(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_have_no_cycles() -> None:
    def package(module: str) -> str:
        return module.rsplit(".", 1)[0] if MODULE_PATHS[module].name != "__init__.py" else module

    edges: dict[str, set[str]] = {}
    for module in MODULE_PATHS:
        for source, _ in _imports(module):
            here, there = package(module), package(source)
            # A package and the folders within it are one for those outside of it.
            if here != there and not here.startswith(f"{there}.") and not there.startswith(f"{here}."):
                edges.setdefault(here, set()).add(there)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for other in sorted(edges.get(name, ())):
                visit(other, (*path, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())


def test_spark_and_techniques_import_only_faces_of_the_engine() -> None:
    wrong = []
    for module in MODULE_PATHS:
        if module.split(".")[0] in ("spark", "techniques"):
            for source, name in _imports(module, for_types=True):
                face = MODULE_PATHS[source].name == "__init__.py"
                if source.startswith("engine") and not (face and name):
                    wrong.append(f"{module} imports {source}")
    assert not wrong, "\n".join(wrong)


def test_no_module_reads_the_privates_of_another() -> None:
    wrong = []
    for module, tree in TREES.items():
        own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _of_self(node)}
        own |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        own |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        read = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        wrong += [
            f"{module}:{node.lineno} reads {ast.unparse(node)}"
            for node in read
            if _private(node.attr) and node.attr not in own and node.attr not in PUBLIC_BY_CONTRACT
        ]
        wrong += [
            f"{module} imports {name} of {source}" for source, name in _imports(module) if _private(name)
        ]
    assert not wrong, "\n".join(wrong)


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_folders_and_modules_are_small() -> None:
    wrong = []
    for folder in {path.parent for path in MODULE_PATHS.values()}:
        name = folder.relative_to(ROOT).as_posix()
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        if name != "." and len(modules) > WIDE.get(name, MODULES):
            wrong.append(f"{name} has {len(modules)} modules")
    for module, path in MODULE_PATHS.items():
        lines = len(path.read_text().splitlines())
        if lines > LINES:
            wrong.append(f"{module} has {lines} lines")
    assert not wrong, "\n".join(wrong)


def test_each_module_says_what_it_is_for() -> None:
    wrong = [module for module, tree in TREES.items() if not ast.get_docstring(tree)]
    assert not wrong, wrong

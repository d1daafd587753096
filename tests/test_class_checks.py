"""Fields and aggregates are asked what they can do, never which class they are of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import muntin

ROOT = Path(muntin.__file__).parent
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))
}
# Where classes may be told apart, and which.
ALLOWED = {
    "engine/partials/factory.py": "all",  # it picks the class
    "engine/state/cells.py": "all",  # the snapshot codec
    "engine/state/partials.py": "all",
    "engine/state/queries.py": "all",
    "algebra/aggregate.py": {"Aggregate"},  # equality
    "algebra/laws.py": {"Aggregate"},  # arguments of users
    "swag/base.py": {"Aggregate"},
    "windows/base.py": {"Aggregate"},
    "windows/frames.py": {"Aggregate"},
}


def _bases() -> dict[str, set[str]]:
    """Return the bases of each class, by name."""
    classes = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name: {ast.unparse(base).split(".")[-1] for base in node.bases} for node in classes}


def _descendants(root: str) -> set[str]:
    bases, found = _bases(), {root}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


WATCHED = _descendants("FieldPartials") | _descendants("Aggregate")


def _checks(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Return the lines that ask for a class, with the classes that they name."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = node.args[1:]
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        names = {n.id for some in asked for n in ast.walk(some) if isinstance(n, ast.Name)}
        names |= {n.attr for some in asked for n in ast.walk(some) if isinstance(n, ast.Attribute)}
        if names & WATCHED:
            yield node.lineno, names & WATCHED


def test_no_module_asks_for_the_class_of_a_field_or_an_aggregate() -> None:
    wrong = []
    for module, tree in TREES.items():
        allowed = ALLOWED.get(module, set())
        if allowed != "all":
            wrong += [
                f"{module}:{line} asks for {names}" for line, names in _checks(tree) if names - set(allowed)
            ]
    assert not wrong, "\n".join(wrong)


def test_all_classes_are_watched_and_checks_are_found() -> None:
    assert {"CompiledField", "RunsField", "SketchField", "Median", "Concat", "BloomFilter"} <= WATCHED
    source = """
if isinstance(field, (int, CompiledField)) or type(aggregate) is sums.Count:
    match field:
        case RunsField():
            pass
"""
    found = sorted((line, *names) for line, names in _checks(ast.parse(source)))
    assert found == [(2, "CompiledField"), (2, "Count"), (4, "RunsField")]

"""From functions to self-contained source text: what a generated module is made of."""

from __future__ import annotations

import ast
import inspect
import math
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

# Modules whose contents are the same in every process.
_STABLE = ("math", "cmath", "numpy", "muntin.kernels.intrinsics")


class NoSourceError(Exception):
    """A function cannot be written out as text; it can still be compiled as it is."""


def write_out(
    functions: Mapping[str, Callable[..., Any]],
    decorator: str,
    *,
    reserved: frozenset[str] = frozenset(),
    checked: bool = False,
) -> str:
    """Return source text that defines these functions, and all that they use, under the given names.

    What they use must not have a `reserved` name. With `checked`, arithmetic calls checked_add and the
    like instead, so that integers cannot wrap unseen.

    >>> import math
    >>> def area(r): return math.pi * r * r
    >>> print(write_out({"lift": area}, "@njit"))
    import math as math
    @njit
    def lift(r):
        return math.pi * r * r
    """
    writer = _Writer(decorator, reserved - functions.keys(), checked)
    for name, function in functions.items():
        writer.bind(name, function)
    return "\n".join(writer.lines)


class _Writer:
    """Collects definitions, each after those it uses; a name stands for one thing only."""

    def __init__(self, decorator: str, reserved: AbstractSet[str], checked: bool) -> None:
        self.decorator = decorator
        self.reserved = reserved
        self.checked = checked
        self.lines: list[str] = []
        self.bound: dict[str, Any] = {}

    def bind(self, name: str, value: Any) -> None:
        if name in self.bound:
            if self.bound[name] is not value and not _same_constant(self.bound[name], value):
                raise NoSourceError(f"two things are called {name!r}")
            return
        if name in self.reserved:
            raise NoSourceError(f"generated code has a {name!r} of its own")
        self.bound[name] = value
        if isinstance(value, types.ModuleType):
            if value.__name__ not in _STABLE:  # what its attributes are would be frozen into kept code
                raise NoSourceError(f"what module {value.__name__} holds may change")
            self.lines.append(f"import {value.__name__} as {name}")
        elif home := _stable_home(value):
            self.lines.append(f"from {home} import {value.__name__} as {name}")
        elif isinstance(value, types.FunctionType):
            self.function(name, value)
        elif isinstance(getattr(value, "py_func", None), types.FunctionType):
            self.function(name, value.py_func)  # one that the user compiled already
        else:
            self.lines.append(f"{name} = {literal(value)}")

    def function(self, name: str, function: types.FunctionType) -> None:
        tree = _definition(function)
        used = inspect.getclosurevars(function)
        for free, value in sorted({**used.globals, **used.nonlocals}.items()):
            if value is function:
                raise NoSourceError(f"{free!r} calls itself")
            self.bind(free, value)
        tree.name = name
        if self.checked:
            tree = ast.fix_missing_locations(_Checked().visit(tree))
        self.lines.append(self.decorator)
        self.lines.append(ast.unparse(tree))


class _Checked(ast.NodeTransformer):
    """Turns +, -, * and squares into calls that notice when integers leave 64 bits."""

    calls: ClassVar[dict[type[ast.operator], str]] = {
        ast.Add: "checked_add",
        ast.Sub: "checked_sub",
        ast.Mult: "checked_mul",
    }

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        exponent = getattr(node.right, "value", None)
        if isinstance(node.op, ast.Pow) and type(exponent) is int and 1 <= exponent <= 4:
            power = node.left
            for _ in range(exponent - 1):
                power = self._call(ast.Mult(), power, node.left)
            return power
        return self._call(node.op, node.left, node.right) if type(node.op) in self.calls else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) not in self.calls or not isinstance(node.target, ast.Name):
            return node
        value = self._call(node.op, ast.Name(node.target.id, ast.Load()), node.value)
        return ast.Assign([node.target], value)

    def _call(self, operator: ast.operator, left: ast.expr, right: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(self.calls[type(operator)], ast.Load()), [left, right], [])


def _definition(function: types.FunctionType) -> ast.FunctionDef:
    """Return a function's syntax tree, without decorators, annotations and doc string."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError, IndexError) as error:
        raise NoSourceError(f"no source for {function.__qualname__}") from error
    if not isinstance(tree, ast.FunctionDef):
        raise NoSourceError(f"{function.__qualname__} is not defined with def")
    if not _is_source_of(tree, function):
        raise NoSourceError(f"the text found for {function.__qualname__} is not what it was made from")
    if not all(isinstance(default, ast.Constant) for default in tree.args.defaults):
        raise NoSourceError(f"{function.__qualname__} has computed defaults")
    tree.decorator_list = []
    tree.returns = None
    for argument in tree.args.args:
        argument.annotation = None
    if ast.get_docstring(tree) is not None and len(tree.body) > 1:
        tree.body = tree.body[1:]
    return tree


def _is_source_of(tree: ast.FunctionDef, function: types.FunctionType) -> bool:
    """Tell whether the text on disk is still what the function was made from, by compiling it again."""
    names = ", ".join(function.__code__.co_freevars)
    plain = ast.parse(ast.unparse(tree)).body[0]
    assert isinstance(plain, ast.FunctionDef)
    plain.decorator_list = []
    plain.returns = None
    outer = ast.parse(f"def outer({names}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [plain]
    used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    modules = [name for name, value in used.items() if isinstance(value, types.ModuleType)]
    imports: list[ast.stmt] = [
        ast.Import([ast.alias(name)]) for name in modules
    ]  # they change how calls compile
    whole = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    module = compile(whole, "<check>", "exec", dont_inherit=True)
    return _shape(_inner(_inner(module))) == _shape(function.__code__)


def _inner(code: types.CodeType) -> types.CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def _shape(code: types.CodeType) -> tuple[Any, ...]:
    constants = [_shape(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, tuple(constants)


def _stable_home(value: Any) -> str | None:
    """Return the module that such as math.sqrt comes from, if that is one whose contents never change."""
    name = getattr(value, "__name__", None)
    if name is None or isinstance(value, types.FunctionType):
        return None
    homes = [sys.modules[home] for home in _STABLE if home in sys.modules]
    return next((home.__name__ for home in homes if getattr(home, name, None) is value), None)


def _same_constant(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, (int, float, str)) and a == b


def literal(value: Any) -> str:
    """Return source text for a constant: numbers, strings, booleans, and tuples of them.

    >>> print(literal((1, -math.inf, True)))
    (1, float('-inf'), True)
    """
    if isinstance(value, tuple):
        inner = [literal(item) for item in value]
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(float(value))!r})"
    if type(value) in (bool, int, float, str):
        return repr(value)
    raise NoSourceError(f"{value!r} is not a constant that can be written out")

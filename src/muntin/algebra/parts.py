"""The primitive fields that partial aggregates are made of, and how several make one state.

An aggregate is a small set of *components* (a count, a sum, a maximum) and a function that turns them
into the answer. A *part* is a field that is lifted and combined as one; it may provide several
components: `spread` carries its own count, `max_count` its maximum. See fusion.py for who needs which.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.algebra.aggregate import NO_IDENTITY, Algebra, Function, Kinds


@dataclass(frozen=True)
class Part:
    """One primitive field: its scalars, and its functions on them."""

    fields: tuple[str, ...]  # the type code of each scalar; "v" and "a": that of the first and second column
    lift: Function
    combine: Function
    widths: tuple[int, ...] | None = None  # scalars per component, where it is not one each
    identity: Any = NO_IDENTITY
    invert: Function | None = None
    error_step: Function | None = None
    error_limit: Function | None = None
    read: Function | None = None  # from a component's scalars to its value
    read_float: Function | None = None  # the same where a float is wanted, and no 64-bit limit applies
    commutative: bool = True  # whether states may be combined in any order
    as_object: Function | None = None  # from its scalars to a state over any Python values, if not the same
    required: int = 1  # of how many columns, from the first, a null makes a record count for nothing
    refuses: Function | None = None  # from columns to which records are an error
    refusal: str = ""  # what is wrong with them

    def spans(self) -> list[tuple[int, int]]:
        """Return where each component's scalars begin and end within the part."""
        spans, at = [], 0
        for width in self.widths or (1,) * len(self.fields):
            spans.append((at, at + width))
            at += width
        return spans


@dataclass(frozen=True)
class Use:
    """A part within a state: which of the lifted values it reads, and where its scalars lie."""

    part: Part
    arguments: tuple[int, ...]
    at: int

    def pick(self, state: str) -> str:
        """Return the source text that takes this part's scalars out of a state."""
        width = len(self.part.fields)
        if width == 1:
            return f"{state}[{self.at}]"
        return "(" + ", ".join(f"{state}[{self.at + k}]" for k in range(width)) + ")"


def compose(
    name: str,
    arity: int,
    parts: Sequence[tuple[Part, tuple[int, ...]]],
    reads: Sequence[tuple[int, int]],
    finish: Function,
    *,
    kinds: Kinds | None,
    result: str,
    floats: bool,
    misses: bool,
    lower_pair: Function | None,
) -> Algebra:
    """Make one algebra of several parts.

    `reads` says which components (part, number within it) `finish` takes; `floats` that it takes them
    as floats, `misses` that it may give None. A state of a single scalar is that scalar, anything else a
    flat tuple.
    """
    uses, at = [], 0
    for part, arguments in parts:
        uses.append(Use(part, arguments, at))
        at += len(part.fields)
    lower = _compose_lower(name, uses, at, reads, finish, floats)
    lift = _compose_lift(name, arity, uses)
    if len(uses) == 1:
        part = uses[0].part
        combine, invert, step, limit = part.combine, part.invert, part.error_step, part.error_limit
    else:
        combine = _pairwise(name, "combine", uses)
        inverts = all(use.part.invert for use in uses)
        invert = _pairwise(name, "invert", uses) if inverts else None
        step, limit = _compose_errors(name, uses) if inverts else (None, None)
    fields = tuple(_field(code, kinds) for use in uses for code in use.part.fields) if kinds else None
    return Algebra(
        lift,
        combine,
        lower,
        invert=invert,
        invert_oldest=invert,
        identity=_identity(uses, kinds),
        error_step=step,
        error_limit=limit,
        fields=fields,
        result=_field(result, kinds),
        misses=misses,
        lower_pair=lower_pair,
    )


def _field(code: str, kinds: Kinds | None) -> str:
    columns = {"v": 0, "a": 1}
    return kinds[columns[code]] if kinds and code in columns else code


def _identity(uses: Sequence[Use], kinds: Kinds | None) -> Any:
    scalars: list[Any] = []
    for use in uses:
        one = use.part.identity
        if callable(one):
            one = one(kinds)
        if one is NO_IDENTITY:
            return NO_IDENTITY
        scalars.extend(one if isinstance(one, tuple) else (one,))
    return scalars[0] if len(scalars) == 1 else tuple(scalars)


def _compose_lift(name: str, arity: int, uses: Sequence[Use]) -> Function:
    if len(uses) == 1 and uses[0].arguments == tuple(range(arity)):
        return uses[0].part.lift
    values = [f"v{k}" for k in range(arity)]
    lines, scalars = [f"def lift({', '.join(values)}):"], []
    for k, use in enumerate(uses):
        call = f"lift_{k}({', '.join(values[a] for a in use.arguments)})"
        width = len(use.part.fields)
        if width > 1:
            lines.append(f"    p{k} = {call}")
        scalars += [f"p{k}[{i}]" for i in range(width)] if width > 1 else [call]
    lines.append(f"    return {_state(scalars)}")
    return _define(name, "lift", lines, {f"lift_{k}": use.part.lift for k, use in enumerate(uses)})


def _pairwise(name: str, verb: str, uses: Sequence[Use]) -> Function:
    lines, scalars = [f"def {verb}(a, b):"], []
    for k, use in enumerate(uses):
        call = f"{verb}_{k}({use.pick('a')}, {use.pick('b')})"
        width = len(use.part.fields)
        if width > 1:
            lines.append(f"    p{k} = {call}")
        scalars += [f"p{k}[{i}]" for i in range(width)] if width > 1 else [call]
    lines.append(f"    return {_state(scalars)}")
    return _define(name, verb, lines, {f"{verb}_{k}": getattr(use.part, verb) for k, use in enumerate(uses)})


def _compose_errors(name: str, uses: Sequence[Use]) -> tuple[Function | None, Function | None]:
    """Return the error functions of the one part that has any: no aggregate here has two."""
    rounding = [use for use in uses if use.part.error_step]
    if not rounding:
        return None, None
    (use,) = rounding

    def define(verb: str) -> Function:
        lines = [f"def {verb}(s):", f"    return {verb}_0({use.pick('s')})"]
        return _define(name, verb, lines, {f"{verb}_0": getattr(use.part, verb)})

    return define("error_step"), define("error_limit")


def _compose_lower(
    name: str,
    uses: Sequence[Use],
    size: int,
    reads: Sequence[tuple[int, int]],
    finish: Function,
    floats: bool,
) -> Function:
    arguments: list[str] = []
    functions: dict[str, Any] = {"finish": finish}
    for k, component in reads:
        use = uses[k]
        begin, end = (use.at + edge for edge in use.part.spans()[component])
        scalars = ["s"] if size == 1 else [f"s[{i}]" for i in range(begin, end)]
        read = (use.part.read_float if floats else None) or use.part.read
        if read:
            functions[f"read_{k}"] = read
            scalars = [f"read_{k}({', '.join(scalars)})"]
        arguments += scalars
    if arguments == ["s"]:
        return finish
    lines = ["def lower(s):", f"    return finish({', '.join(arguments)})"]
    return _define(name, "lower", lines, functions)


def _state(scalars: list[str]) -> str:
    return scalars[0] if len(scalars) == 1 else "(" + ", ".join(scalars) + ")"


def _define(name: str, verb: str, lines: list[str], functions: dict[str, Any]) -> Function:
    """Define a function from source that tracebacks and the kernel generator can read again."""
    filename = f"<muntin {name}.{verb} {abs(hash((tuple(lines), *functions.values()))):x}>"
    text = "\n".join(lines) + "\n"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = dict(functions)
    exec(compile(text, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[verb]
    return function

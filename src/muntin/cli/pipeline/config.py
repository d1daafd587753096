"""pipeline.toml, read and checked: each message names the file and the line."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from muntin.cli.pipeline.calls import aggregate_of, window_of
from muntin.cli.pipeline.toml_lines import Lines
from muntin.cli.pipeline.toml_lines import Path as Where
from muntin.console.mistakes import MistakeError, close_to, one_line
from muntin.expressions import Expression
from muntin.settings import MisfitError, time_and_key
from muntin.windows.base import Query
from muntin.windows.durations import Duration

FILES = ("parquet", "csv", "ndjson")
SOURCES = (*FILES, "replay", "kafka")
SINKS = (*FILES, "console")
ROWS = ("folded", "changes")
TYPES = ("bool", "int32", "int64", "float32", "float64", "string", "date32", "timestamp")
_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
}


@dataclass(frozen=True)
class Sink:
    """Where rows go: a file of the last revisions, a folder of all changes, or the terminal."""

    format: str
    path: Path | None
    rows: str


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as its file says."""

    path: Path
    lines: Lines
    source: Mapping[str, Any]
    time: str
    key: tuple[str, ...]
    watermark: str | int | None  # None: every record counts
    lateness: str | int
    tie: str | None
    queries: tuple[Query, ...]
    places: tuple[Where, ...]  # where each query stands
    sink: Sink
    checkpoint: Path | None
    every: float  # seconds between two checkpoints
    digest: str  # of all that the state of a run depends on

    @property
    def name(self) -> str:
        """Return what it is called in reports."""
        return self.path.stem

    def mistake(self, where: Where, what: str) -> MistakeError:
        """Return a mistake on the line of a key."""
        return MistakeError(f"{self.path}, line {self.lines.of(where)}: {what}")

    def named_queries(self) -> dict[str, Query]:
        """Return the queries by the names that they have in the rows."""
        return {query.name or f"q{place}": query for place, query in enumerate(self.queries)}


class Table:
    """A table of the file: hands out what is known in it, and refuses the rest."""

    def __init__(self, values: Mapping[str, Any], where: Where, file: Path, lines: Lines) -> None:
        self.values, self.where, self.file, self.lines = values, where, file, lines
        self._asked: list[str] = []

    def fail(self, what: str, name: str | None = None) -> NoReturn:
        """Refuse the table, or a key of it."""
        line = self.lines.of(self.where if name is None else (*self.where, name))
        raise MistakeError(f"{self.file}, line {line}: {what}")

    def get(self, name: str, *kinds: type, default: Any = None, needed: bool = False) -> Any:
        """Return the value of a key, which is of one of these types."""
        self._asked.append(name)
        if name not in self.values:
            if needed:
                self.fail(f"{self._title()} needs {name!r}.")
            return default
        value = self.values[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.fail(
                f"{name} is {' or '.join(_KINDS.get(k, 'a list') for k in kinds)}, not {value!r}.", name
            )
        return value

    def choice(
        self, name: str, allowed: Iterable[str], default: str | None = None, what: str | None = None
    ) -> str:
        """Return one of some words."""
        value: str = self.get(name, str, default=default, needed=default is None)
        if value not in allowed:
            self.fail(f"there is no {what or name} {value!r}; {close_to(value, allowed)}", name)
        return value

    def duration(self, name: str, default: str | int | None = None) -> Any:
        """Return a duration as it is written, or a whole number where times are such."""
        value = self.get(name, str, int, default=default)
        if value is not None:
            try:
                Duration.of(value, name, least=0)
            except (ValueError, TypeError) as error:
                self.fail(one_line(error), name)
        return value

    def done(self) -> None:
        """Refuse keys that nobody asked for."""
        for name in self.values:
            if name not in self._asked:
                self.fail(f"{self._title()} has no {name!r}; {close_to(name, self._asked)}", name)

    def _title(self) -> str:
        named = ".".join(part for part in self.where if isinstance(part, str))
        return f"[{named}]" if named else "the file"

    def below(self, name: str, *, needed: bool = False) -> Table:
        """Return a table within."""
        return Table(
            self.get(name, dict, default={}, needed=needed), (*self.where, name), self.file, self.lines
        )


def _read(path: Path) -> Table:
    """Return all that a file says."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MistakeError(f"{path} cannot be read: {_reason(error)}.") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = re.sub(r"\s*\(at (line \d+), column \d+\)", "", str(error))
        found = re.search(r"line (\d+)", str(error))
        line = found[1] if found else str(text.count("\n") + 1)
        raise MistakeError(f"{path}, line {line}: this is no TOML: {said}.") from error
    return Table(values, (), path, Lines(text))


def load(path: Path) -> Pipeline:
    """Return the pipeline of a file."""
    root = _read(path)
    source = _source(root.below("source", needed=True))
    stream = root.below("stream")
    queries, places = _queries(root)
    given_time, given_key = stream.get("time", str), stream.get("key", str, list)
    watermark, lateness = stream.duration("watermark"), stream.duration("lateness", 0)
    if watermark is None and Duration.of(lateness, "lateness", least=0).amount:
        stream.fail("lateness needs a watermark: without one, every record counts.", "lateness")
    tie = stream.get("tie", str)
    stream.done()
    time, key = _time_and_key(stream, given_time, given_key, queries)
    sink = _sink(root.below("sink"))
    checkpoint, every = _checkpoint(root.below("checkpoint"), sink)
    root.done()
    kept = {name: root.values.get(name) for name in ("source", "stream", "query")}
    kept |= {"rows": sink.rows, "to": sink.format}
    if sink.path is not None and sink.rows == "changes":  # rows of one run go into one folder
        kept["path"] = str(sink.path.resolve())
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()
    return Pipeline(
        path,
        root.lines,
        source,
        time,
        key,
        watermark,
        lateness,
        tie,
        tuple(query.query for query in queries),
        places,
        sink,
        checkpoint,
        every,
        digest,
    )


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    return (error.strerror or str(error)).lower()


def _beside(file: Path, path: str) -> Path:
    """Return a path of the file, which is meant from where the file is."""
    return file.parent / Path(path).expanduser()


# ---- source ----


def _source(table: Table) -> dict[str, Any]:
    kind = table.choice("format", SOURCES)
    spec: dict[str, Any] = {"format": kind}
    if kind in FILES:
        spec["path"] = str(_beside(table.file, table.get("path", str, needed=True)))
        spec["per_batch"] = _size(table)
        spec["types"] = _types(table.below("types"))
    elif kind == "replay":
        spec |= _replay(table)
    else:
        spec["options"] = {k: str(v) for k, v in table.get("options", dict, needed=True).items()}
        spec["types"] = _types(table.below("types", needed=True))
    table.done()
    return spec


def _size(table: Table) -> int:
    """Return how many bytes of files go into a batch."""
    text = table.get("per_batch", str, default="16MB")
    found = re.fullmatch(r"\s*(\d+)\s*(B|kB|MB|GB)\s*", text)
    if not found or not int(found[1]):
        table.fail(f"per_batch is a size such as '16MB', not {text!r}.", "per_batch")
    return int(found[1]) * {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]]


def _types(table: Table) -> dict[str, str]:
    return {name: table.choice(name, TYPES, what="type") for name in table.values}


def _replay(table: Table) -> dict[str, Any]:
    """Return a generator's name and parameters; parameters are those of its class."""
    from dataclasses import fields

    from muntin.generate import GENERATORS, Arrivals

    name = table.choice("generator", GENERATORS)
    made = GENERATORS[name]
    arguments = {}
    for field in fields(made):
        kinds = (int, float) if isinstance(field.default, float) else (int,)
        arguments[field.name] = table.get(field.name, *kinds, default=field.default)
    disorder = table.get("disorder", int, float, default=made.disorder)
    delay, per_batch = table.duration("delay", "2s"), table.duration("per_batch", "10s")
    try:
        Arrivals(made(**arguments), disorder=disorder, delay=delay)
    except (ValueError, TypeError) as error:
        table.fail(one_line(error))
    if not Duration.of(per_batch, "per_batch", least=0).nanoseconds:
        table.fail(f"per_batch is a duration above zero such as '10s', not {per_batch!r}.", "per_batch")
    spec = {"generator": name, "arguments": arguments, "disorder": disorder, "delay": delay}
    return {**spec, "per_batch": per_batch}


# ---- queries ----


@dataclass(frozen=True)
class _Asked:
    """A query, and the table that it stands in."""

    query: Query
    table: Table


def _queries(root: Table) -> tuple[list[_Asked], tuple[Where, ...]]:
    listed = root.get("query", list, needed=True)
    asked: list[_Asked] = []
    for place, values in enumerate(listed):
        if not isinstance(values, dict):
            root.fail(f"a query is a table under [[query]], not {values!r}.", "query")
        table = Table(values, ("query", place), root.file, root.lines)
        asked += _statements(table) if "sql" in table.values else [_Asked(_query(table), table)]
    if not asked:
        root.fail("there is no query: add a [[query]] with a window and [query.aggregates].")
    named: set[str] = set()
    for number, one in enumerate(asked):
        name = one.query.name or f"q{number}"
        if name in named:
            one.table.fail(f"there are two queries named {name!r}; give each its own name.", "name")
        named.add(name)
    return asked, tuple(one.table.where for one in asked)


def _query(table: Table) -> Query:
    """Return the query of a table."""
    window = _made(table, "window", window_of)
    aggregates_table = table.below("aggregates", needed=True)
    aggregates = {name: _made(aggregates_table, name, aggregate_of) for name in aggregates_table.values}
    options = {
        "name": table.get("name", str),
        "emit": table.get("emit", str, default="all"),
        "emit_empty": table.get("emit_empty", bool, default=False),
        "emit_partial": table.get("emit_partial", bool, default=False),
        "where": _condition(table, "where"),
        "having": _condition(table, "having"),
        "early": table.get("early", str, int),
    }
    table.done()
    try:
        return Query(window, aggregates, **options)
    except (ValueError, TypeError) as error:
        table.fail(one_line(error))


def _made(table: Table, name: str, how: Any) -> Any:
    text = table.get(name, str, needed=True)
    try:
        return how(text)
    except MistakeError as error:
        table.fail(str(error), name)


def _condition(table: Table, name: str) -> Any:
    """Return a condition over columns, in SQL."""
    text = table.get(name, str)
    if text is None:
        return None
    try:
        return Expression(text)
    except ValueError as error:
        table.fail(f"{name}: {one_line(error)}", name)


def _statements(table: Table) -> list[_Asked]:
    """Return the queries of statements in SQL; `name` is for one that has none of its own."""
    from muntin.streamsql import SqlError, statements

    text, name = table.get("sql", str, needed=True), table.get("name", str)
    table.done()
    try:
        found = statements(text)
    except SqlError as error:
        line = table.lines.first_of_text((*table.where, "sql")) + error.line - 1
        raise MistakeError(f"{table.file}, line {line}: {error.reason}") from error
    except ImportError as error:
        table.fail(one_line(error), "sql")
    if name is not None and len(found) != 1:
        table.fail(f"name is for one statement, but there are {len(found)}.", "name")
    queries = [statement.query for statement in found]
    return [_Asked(query if name is None else replace(query, name=name), table) for query in queries]


def _time_and_key(
    stream: Table, time: str | None, given: str | list[str] | None, asked: list[_Asked]
) -> tuple[str, tuple[str, ...]]:
    """Return the time column and the keys: as [stream] says, or as statements in SQL do."""
    key = None if given is None else (given,) if isinstance(given, str) else tuple(given)
    if key is not None and not all(isinstance(name, str) for name in key):
        stream.fail(f"key is a column or a list of columns, not {given!r}.", "key")
    queries = [one.query for one in asked]
    if time is None and not any(query.time for query in queries):
        stream.fail("[stream] needs 'time', the column with the time of each record.")
    try:
        found, keys = time_and_key(queries, time, key)
    except MisfitError as error:
        table = next(one.table for one in asked if one.query is error.query)
        table.fail(one_line(error), "sql")
    return found, tuple(keys)


# ---- sink and checkpoint ----


def _sink(table: Table) -> Sink:
    kind = table.choice("format", SINKS, default="console")
    rows = table.choice("rows", ROWS, default="folded")
    path = table.get("path", str, needed=kind != "console")
    if kind == "console" and path is not None:
        table.fail("a sink on the console has no path.", "path")
    table.done()
    return Sink(kind, None if path is None else _beside(table.file, path), rows)


def _checkpoint(table: Table, sink: Sink) -> tuple[Path | None, float]:
    path = table.get("path", str)
    every = Duration.of(table.duration("every", "10s"), "every", least=0)
    table.done()
    if every.nanoseconds is None and every.amount:
        table.fail(f"every is a duration such as '10s', not {every.text}.", "every")
    seconds = every.amount / 1e9
    if path is not None:
        return _beside(table.file, path), seconds
    beside = None if sink.path is None else sink.path.with_name(f"{sink.path.name}.checkpoint")
    return beside, seconds

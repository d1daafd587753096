"""muntin explain: what is decided for queries, and why."""

from __future__ import annotations

from pathlib import Path

from muntin.cli.commands.checking import opened, operator
from muntin.cli.pipeline.config import load
from muntin.cli.pipeline.sinks import as_json
from muntin.console.mistakes import OK, MistakeError, one_line
from muntin.engine import Explanation
from muntin.operator import WindowOperator

_FIRST = 1  # record is enough to tell the types of columns


def explain(what: str, *, as_lines: bool) -> int:
    """Print what is decided for a pipeline, or for statements in SQL; return the exit code."""
    told = _of_file(Path(what)) if _names_a_file(what) else _of_sql(what)
    print(as_json(told.as_dict()) if as_lines else str(told))
    return OK


def _names_a_file(what: str) -> bool:
    """Tell whether this is a file, or is meant to be one: no statement is a single word."""
    return what.endswith(".toml") or not any(letter.isspace() for letter in what.strip())


def _of_file(path: Path) -> Explanation:
    """Explain a pipeline; the columns of its source say what types there are."""
    pipeline = load(path)
    op = operator(pipeline, pipeline.queries)
    if pipeline.source["format"] != "kafka":
        source = opened(pipeline)
        first = next((table for k in range(len(source.batches)) if (table := source.read(k)).num_rows), None)
        if first is not None:
            op.process(first.slice(0, _FIRST))
    return op.explain()


def _of_sql(text: str) -> Explanation:
    from muntin.streamsql import SqlError, statements

    try:
        found = statements(text)
    except SqlError as error:
        raise MistakeError(
            f"the statement, line {error.line}, column {error.column}: {error.reason}"
        ) from error
    except ImportError as error:
        raise MistakeError(one_line(error)) from error
    queries = [statement.query for statement in found]
    time = None if any(query.time for query in queries) else "ts"  # whichever: there is no stream
    try:
        return WindowOperator(queries, time=time, watermark="10s").explain()
    except (ValueError, TypeError) as error:
        raise MistakeError(one_line(error)) from error

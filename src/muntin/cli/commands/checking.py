"""A pipeline against what its source holds: columns and types, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from muntin.cli.pipeline.config import Pipeline
from muntin.cli.pipeline.sources import Source, open_source, type_named
from muntin.cli.pipeline.toml_lines import Path as Where
from muntin.console.mistakes import MistakeError, close_to, one_line
from muntin.engine.ingest import read_times
from muntin.expressions import sources
from muntin.operator import WindowOperator


def opened(pipeline: Pipeline) -> Source:
    """Return the source with the columns that the pipeline reads; refuse a pipeline that cannot run on it."""
    source = open_source(pipeline.source, pipeline.time)
    check_columns(pipeline, source.schema)
    checked = source.only(list(dict.fromkeys(name for name, _ in _read(pipeline))))
    check_types(pipeline, checked.schema)
    return checked


def check_declared(pipeline: Pipeline) -> None:
    """Refuse a pipeline that cannot run on the columns that it says its source has."""
    declared = pa.schema([(name, type_named(kind)) for name, kind in pipeline.source["types"].items()])
    check_columns(pipeline, declared)
    check_types(pipeline, declared)


def check_columns(pipeline: Pipeline, schema: pa.Schema) -> None:
    """Refuse a column that is not there, on the line that names it."""
    for name, where in _read(pipeline):
        if name not in schema.names:
            raise pipeline.mistake(where, f"there is no column {name!r}; {close_to(name, schema.names)}")


def check_types(pipeline: Pipeline, schema: pa.Schema) -> None:
    """Refuse what no engine can compute over columns of these types."""
    try:
        read_times(pa.array([], schema.field(pipeline.time).type), pipeline.time)
    except TypeError as error:
        raise pipeline.mistake(("stream", "time"), one_line(error)) from error
    for query, where in zip(pipeline.queries, pipeline.places, strict=True):
        try:
            operator(pipeline, [query]).process(_sample(schema))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise pipeline.mistake(where, one_line(error)) from error
    try:
        operator(pipeline, pipeline.queries).process(_sample(schema))
    except (ValueError, TypeError, KeyError) as error:
        raise MistakeError(f"{pipeline.path}: {one_line(error)}") from error


def operator(pipeline: Pipeline, queries: Iterable[object]) -> WindowOperator:
    """Return an operator as the pipeline says; without a watermark every record counts."""
    p = pipeline
    watermark = "manual" if p.watermark is None else p.watermark
    return WindowOperator(
        queries,  # type: ignore[arg-type]
        time=p.time,
        key=list(p.key),
        watermark=watermark,
        lateness=p.lateness,
        tie=p.tie,
    )


def _sample(schema: pa.Schema) -> pa.Table:
    """Return a record with a time and nothing else: it fixes the types."""
    times = [0 if pa.types.is_integer(f.type) or pa.types.is_timestamp(f.type) else None for f in schema]
    return pa.table(
        [pa.array([value], field.type) for value, field in zip(times, schema, strict=True)], schema=schema
    )


def _read(pipeline: Pipeline) -> list[tuple[str, Where]]:
    """Return the columns that are read, and the lines that name them."""
    stream: list[tuple[str, Where]] = [(pipeline.time, ("stream", "time"))]
    stream += [(name, ("stream", "key")) for name in pipeline.key]
    if pipeline.tie is not None:
        stream.append((pipeline.tie, ("stream", "tie")))
    for query, where in zip(pipeline.queries, pipeline.places, strict=True):
        for column, aggregate in query.aggregates.items():
            stream += [(name, (*where, "aggregates", column)) for name in aggregate.columns]
        stream += [(name, (*where, "window")) for name, _ in query.window.inputs()]
        if query.where is not None:
            stream.append((query.where, (*where, "where")))
    return [(column, place) for name, place in stream for column in sources(name)]

"""muntin run: pipelines one after the other, in one session if they run on Spark."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from muntin.cli.commands.checking import check_declared, opened
from muntin.cli.measuring import Watch, measured
from muntin.cli.pipeline.config import Pipeline, load
from muntin.cli.pipeline.outlets import Outlet
from muntin.cli.pipeline.sources import Source
from muntin.cli.pipeline.states import NotWholeError, State
from muntin.cli.reports import Report
from muntin.console.mistakes import INTERRUPTED, OK, SPARK, MistakeError, full_disk, need
from muntin.console.terminal import errors_into, interruption


def run(
    files: Sequence[Path], engine: str, *, fresh: bool, as_lines: bool, metrics_port: int | None = None
) -> int:
    """Run pipelines; return the exit code. All are checked before the first begins."""
    if engine != "embedded":
        need("Spark", "spark", SPARK, ", or use --engine embedded")
    pipelines = [load(file) for file in files]
    sources = [_open(pipeline, engine) for pipeline in pipelines]
    _check_places(pipelines, sources)
    with contextlib.ExitStack() as stack:
        states = [stack.enter_context(_state(pipeline, engine, fresh=fresh)) for pipeline in pipelines]
        spark = stack.enter_context(_session(engine))
        watch = stack.enter_context(measured([p.name for p in pipelines], metrics_port, spark))
        interrupted = stack.enter_context(interruption())  # after Spark, which has its own way with Ctrl-C
        for pipeline, source, state in zip(pipelines, sources, states, strict=True):
            if interrupted.is_set():
                return INTERRUPTED
            if not _run_one(pipeline, source, state, engine, spark, interrupted, watch, as_lines=as_lines):
                return INTERRUPTED
    return OK


def _open(pipeline: Pipeline, engine: str) -> Source | None:
    if pipeline.source["format"] != "kafka":
        return opened(pipeline)
    if engine == "embedded":
        raise pipeline.mistake(
            ("source", "format"), "Kafka is read on Spark only: leave out --engine embedded."
        )
    if pipeline.watermark is None:
        raise pipeline.mistake(
            ("stream",), "a stream that does not end needs a watermark, as in watermark = '10s'."
        )
    check_declared(pipeline)
    return None


def _check_places(pipelines: Sequence[Pipeline], sources: Sequence[Source | None]) -> None:
    """Refuse two pipelines that write into the same file, and one that writes where a source is."""
    read = {
        Path(name): p for p, s in zip(pipelines, sources, strict=True) if s is not None for name in s.files
    }
    taken: dict[Path, Path] = {}
    for pipeline in pipelines:
        if pipeline.sink.path is not None:
            place = pipeline.sink.path.resolve()
            for file, reader in read.items():
                if place in _written_over(file, pipeline.sink.rows):
                    raise pipeline.mistake(
                        ("sink", "path"),
                        f"rows would replace {file}, which {reader.path} reads: name another path.",
                    )
            if place in taken:
                raise pipeline.mistake(
                    ("sink", "path"), f"{taken[place]} writes to {pipeline.sink.path} as well."
                )
            taken[place] = pipeline.path


def _written_over(file: Path, rows: str) -> set[Path]:
    """Return the paths of sinks that would write over a file, which may be a link."""
    folder = file.parent.resolve()
    places = {file.resolve(), folder / file.name}
    return places | {place.parent for place in places} if rows == "changes" else places


@contextlib.contextmanager
def _session(engine: str) -> Iterator[Any]:
    """A Spark session, if the engine is Spark."""
    if engine == "embedded":
        yield None
        return
    from muntin.spark import JavaError, local_session

    with tempfile.TemporaryFile() as log:
        try:
            with errors_into(log):
                spark = local_session("muntin run")
        except JavaError as error:
            raise MistakeError(f"{error} Or use --engine embedded, which needs none.") from error
        spark.sparkContext.setLogLevel("OFF")  # what is wrong is told in one sentence
        with spark:
            yield spark


@contextlib.contextmanager
def _state(pipeline: Pipeline, engine: str, *, fresh: bool) -> Iterator[State]:
    """The state of a pipeline, for this run alone."""
    try:
        state = State(pipeline, engine, fresh=fresh)
    except OSError as error:
        raise MistakeError(f"{error.filename} cannot be written: {error.strerror}.") from error
    try:
        yield state
    finally:
        state.close()


def _run_one(
    pipeline: Pipeline,
    source: Source | None,
    state: State,
    engine: str,
    spark: Any,
    interrupted: threading.Event,
    watch: Watch,
    *,
    as_lines: bool,
) -> bool:
    """Run a pipeline; tell whether it came to its end."""
    report = Report(pipeline.name, as_lines=as_lines)
    try:
        outlet = Outlet(pipeline, state, report)
        source = state.source(source)
        run = _engine(engine, spark, pipeline, source, state, outlet, report)
        watch(pipeline.name, run.operator)
        ended: bool = run.run(interrupted)
        report.stop()
        rows, where = outlet.end(complete=ended)
        if ended:
            state.end()
        checkpoint = None if ended or pipeline.checkpoint is None else str(state.folder)
        report.end(run.counts, rows, where, interrupted=not ended, checkpoint=checkpoint)
        return ended
    except OSError as error:
        state.give_up()
        raise _without_room(pipeline, state, error) from error
    except NotWholeError:
        raise
    except MistakeError as error:
        state.give_up()
        raise (_without_room(pipeline, state, error) if full_disk(error) else error) from error
    finally:
        report.stop()


def _engine(engine: str, spark: Any, pipeline: Pipeline, source: Any, *others: Any) -> Any:
    if engine == "embedded":
        from muntin.cli.pipeline.embedded import EmbeddedRun

        return EmbeddedRun(pipeline, source, *others)
    from muntin.cli.pipeline.on_spark import SparkRun

    return SparkRun(spark, pipeline, source, *others)


def _without_room(pipeline: Pipeline, state: State, error: Exception) -> Exception:
    if not full_disk(error):
        if isinstance(error, OSError):
            return MistakeError(
                f"{pipeline.path}: {error.strerror or error}: {error.filename or state.folder}."
            )
        return error
    where = pipeline.sink.path or state.folder
    return MistakeError(
        f"the disk of {where} or of {state.folder} is full: make room and run {pipeline.path} again, "
        "which goes on from its checkpoint."
    )

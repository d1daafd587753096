"""The program `muntin`: what each command takes, and exit codes. What they do is loaded when it is run."""

from __future__ import annotations

import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muntin.console.mistakes import FAILED, INTERRUPTED, MISTAKEN, MistakeError, full_disk

app = typer.Typer(
    name="muntin",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: a screen has room for an example
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


class Engine(StrEnum):
    """What computes the windows."""

    spark = "spark"
    embedded = "embedded"


class Recording(StrEnum):
    """What can be generated."""

    debs12 = "debs12"
    debs13 = "debs13"
    stocks = "stocks"


Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def _version(asked: bool) -> None:
    if asked:
        from muntin import __version__

        print(f"muntin {__version__}")
        raise typer.Exit


@app.callback(epilog="Exit codes: 0 done, 2 something to put right, 130 interrupted, 1 a bug.")
def muntin(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Windows over streams: on Spark, or without it.

    \b
    Example:
      muntin generate stocks --out ticks.parquet
      muntin explain "SELECT symbol, window_start, AVG(price) AS avg
                      FROM TUMBLE(ticks, ts, '1 minute')
                      GROUP BY symbol, window_start"
    """
    del version  # said by then


@app.command()
def run(
    pipelines: Annotated[
        list[Path], typer.Argument(help="Files that describe pipelines.", metavar="PIPELINE.toml")
    ],
    engine: Annotated[Engine, typer.Option(help="What computes the windows.")] = Engine.spark,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, whatever was interrupted.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve /metrics and /healthz here.", min=1, max=65535)
    ] = None,
    as_lines: Json = False,
) -> int:
    """Run pipelines: from a source through windows into a sink.

    A run that was interrupted or killed goes on from its checkpoint when it
    is started again. Ctrl-C stops it after the batch at work.

    \b
    Example:
      muntin run --engine embedded examples/pipelines/possession.toml
    """
    from muntin.cli.commands.running import run as work

    return work(pipelines, engine.value, fresh=fresh, as_lines=as_lines, metrics_port=metrics_port)


@app.command()
def explain(
    what: Annotated[
        str, typer.Argument(help="A pipeline's file, or statements in SQL.", metavar="PIPELINE.toml|SQL")
    ],
    as_lines: Json = False,
) -> int:
    """Say what is decided for the queries of a pipeline, and why.

    \b
    Example:
      muntin explain examples/pipelines/possession.toml
    """
    from muntin.cli.commands.explaining import explain as work

    return work(what, as_lines=as_lines)


@app.command()
def generate(
    recording: Annotated[Recording, typer.Argument(help="What to record.")],
    out: Annotated[Path, typer.Option(help="A .parquet, .csv or .ndjson file.")],
    seconds: Annotated[float, typer.Option(help="How long it lasts.", min=0.001)] = 60.0,
    size: Annotated[
        int | None,
        typer.Option(
            help="Machines, hertz of sensors, or symbols.", min=1, show_default="as the generator has it"
        ),
    ] = None,
    disorder: Annotated[
        float | None,
        typer.Option(
            help="Share of records that come late.", min=0, max=1, show_default="as the generator has it"
        ),
    ] = None,
    delay: Annotated[str, typer.Option(help="By how much at most.")] = "2s",
    seed: Annotated[int, typer.Option(help="The same seed gives the same records.")] = 0,
    as_lines: Json = False,
) -> int:
    """Write a recording: a factory (debs12), a football match (debs13), stocks.

    \b
    Example:
      muntin generate debs13 --out match.parquet --seconds 30 --size 20
    """
    from muntin.cli.commands.generating import generate as work

    return work(recording.value, out, seconds, size, disorder, delay, seed, as_lines=as_lines)


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="Length of the recordings.", min=1)] = 120,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("out"),
) -> int:
    """Run football and factory sensors through 18 window queries on Spark.

    \b
    Example:
      muntin demo --seconds 60 --out out
    """
    from muntin.demo.run import main as work

    return work(["--seconds", str(seconds), "--out", str(out)])


@app.command()
def dashboard(
    pipeline: Annotated[
        Path | None, typer.Argument(help="A file that describes a pipeline.", metavar="PIPELINE.toml")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Generated football and factory streams.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8765,
    token: Annotated[str | None, typer.Option(help="What requests must bring.")] = None,
    allow_queries: Annotated[
        bool, typer.Option("--allow-queries", help="Let pages add and remove queries.")
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> int:
    """Show windows at work on a page: open, closed, corrected, and what they share.

    Only this machine reaches the page, unless --host says otherwise: each
    request then needs a token, which is made up if none is given. The sink
    of a pipeline is left alone.

    \b
    Example:
      muntin dashboard --demo
    """
    from muntin.cli.commands.serving import dashboard as work

    return work(
        pipeline,
        demo=demo,
        host=host,
        port=port,
        token=token,
        allow_queries=allow_queries,
        browser=not no_browser,
    )


@app.command()
def bench(
    figures: Annotated[
        list[str] | None, typer.Argument(help="Which ones; all, if none is named.", metavar="FIGURE")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say which there are.")] = False,
) -> int:
    """Run benchmarks, which are in a checkout of muntin's repository.

    \b
    Example:
      muntin bench latency windows
    """
    from muntin.cli.commands.benching import bench as work

    return work(figures or [], listed=listed)


@app.command()
def doctor(as_lines: Json = False) -> int:
    """Check Python, packages, Java, Spark, the cache of kernels, memory.

    Says what to do about what it finds; exit code 2 if something is amiss.
    Extras that are not installed are named, but nothing is amiss with them.

    \b
    Example:
      muntin doctor --json
    """
    from muntin.cli.commands.doctoring import doctor as work

    return work(as_lines=as_lines)


def main() -> int:
    """Run the program; return its exit code."""
    try:
        code = app(standalone_mode=False, prog_name="muntin")
    except MistakeError as error:
        return _told(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # who reads has enough, as `head` does
        sys.stderr.close()
        return FAILED
    except Exception as error:
        return _unexpected(error)
    return code if isinstance(code, int) else 0


def _unexpected(error: Exception) -> int:
    if full_disk(error):
        return _told("the disk is full: make room, and run the command again.")
    shown = getattr(error, "format_message", None)
    if shown is not None:  # what the arguments of the program are not
        said = " ".join(str(shown()).split())
        return _told(said if said.endswith("?") else f"{said.rstrip('.')}: see muntin --help.")
    if type(error).__name__ == "Abort":
        return INTERRUPTED
    if type(error).__name__ == "Exit":
        return int(getattr(error, "exit_code", FAILED))
    traceback.print_exception(error)
    return FAILED


def _told(sentence: str) -> int:
    """Say what is wrong in one sentence, to programs as well if they asked for JSON."""
    if "--json" in sys.argv:
        import json

        print(json.dumps({"event": "error", "message": sentence}), flush=True)
    print(f"muntin: {sentence}", file=sys.stderr)
    return MISTAKEN

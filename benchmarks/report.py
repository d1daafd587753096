"""One table, shown on the terminal and returned as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Print a table whose first column is a name and the others numbers; return it as Markdown.

    A note says below the table what was measured.
    """
    table = Table(title=title, caption=note.replace("\n", " ") or None)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=k == 0)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    ruler = ["---", *["---:"] * (len(headings) - 1)]
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, ruler, *rows)]
    return "\n".join([f"### {title}", "", *lines, "", *([note, ""] if note else [])])


def verdict(holds: bool) -> str:
    """Return how a limit is reported."""
    return "ok" if holds else "LOST"

"""On which line of a TOML file each table and key stands: the standard library's reader does not tell."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=\s*(.*)$""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


class Lines:
    """The lines of tables and keys, by their path: ("query", 0, "window").

    >>> lines = Lines('[stream]\\ntime = "ts"\\n\\n[[query]]\\nname = "a"\\n[[query]]\\nname = "b"\\n')
    >>> lines.of(("stream", "time")), lines.of(("query", 1, "name")), lines.of(("query", 1, "window"))
    (2, 7, 6)
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {(): 1}
        self._within: set[Path] = set()  # texts that begin on the line after their key
        self._counts: dict[Path, int] = {}
        table: Path = ()
        closing: str | None = None
        for number, line in enumerate(text.splitlines(), 1):
            if closing is not None:
                closing = None if closing in line else closing
                continue
            header, key = _HEADER.match(line), _KEY.match(line)
            if header:
                table = self._table(header[2], array=header[1] == "[[")
                self._lines.setdefault(table, number)
            elif key:
                path = (*table, *_parts(key[1]))
                self._lines.setdefault(path, number)
                opened = next((q for q in ('"""', "'''") if key[2].startswith(q)), None)
                if opened and opened not in key[2][3:]:
                    closing = opened
                    if key[2].strip() == opened:
                        self._within.add(path)

    def _table(self, name: str, *, array: bool) -> Path:
        """Return the path of a table; within an array of tables it is that of the last one."""
        path: Path = ()
        parts = _parts(name)
        for place, part in enumerate(parts):
            path = (*path, part)
            if array and place == len(parts) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
                self._lines.setdefault(path, 0)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def of(self, path: Path) -> int:
        """Return the line of a key or table; of what is not there, that of the table it belongs to."""
        while path not in self._lines or not self._lines[path]:
            path = path[:-1]
        return self._lines[path]

    def first_of_text(self, path: Path) -> int:
        """Return the line on which the text of a key begins."""
        return self.of(path) + (path in self._within)


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(name)]

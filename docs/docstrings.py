"""Examples in docstrings, as the site shows them: prompts stand in a block of code."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """Return a docstring with a fence around each stretch that begins with a prompt.

    >>> fenced("Add.\\n\\n>>> 1 + 1\\n2").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    parts = text.split("\n\n")
    return "\n\n".join(f"```pycon\n{part}\n```" if part.startswith(">>> ") else part for part in parts)


class Fences(griffe.Extension):
    """Fences in all docstrings that are read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change a docstring as soon as it has been read."""
        del kwargs
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

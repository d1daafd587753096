"""Write all drawings into docs/drawings."""

from __future__ import annotations

from pathlib import Path

from drawings.late import lateness
from drawings.machinery import machinery
from drawings.windows import PICTURES, draw

FOLDER = Path(__file__).parents[1] / "docs" / "drawings"


def everything() -> dict[str, str]:
    """Return the text of each drawing by the name of its file."""
    windows = {f"{picture.name}.svg": draw(picture) for picture in PICTURES}
    return windows | machinery() | {"late.svg": lateness()}


def main() -> None:
    """Write what has changed."""
    for name, text in everything().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()

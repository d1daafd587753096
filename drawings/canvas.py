"""A sheet to draw on: boxes, dots, lines and texts, as SVG that reads on light and on dark pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

WIDTH = 720
INK, FAINT, PAPER = "#263238", "#90a4ae", "#fbfdfd"
ACCENT = "#d84315"
COLOURS = ("#80cbc4", "#90caf9", "#ffcc80", "#ce93d8")  # one for each query of a drawing
_STYLE = (
    f"text{{font:12px sans-serif;fill:{INK};text-anchor:middle}}"
    ".left{text-anchor:start}.code{font:12px monospace;text-anchor:start}"
    f".small{{font-size:10px}}.faint{{fill:#607d8b}}.axis{{stroke:{INK}}}"
    f".grid{{stroke:#cfd8dc;stroke-dasharray:3 3}}.accent{{stroke:{ACCENT};stroke-dasharray:5 3}}"
    f".link{{stroke:{FAINT};fill:none}}"
)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


@dataclass
class Canvas:
    """What has been drawn so far."""

    title: str
    marks: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: object, kind: str = "") -> None:
        """Write words with their middle (or, for some kinds, their start) at a place."""
        named = f' class="{kind}"' if kind else ""
        self.marks.append(f'<text x="{_number(x)}" y="{_number(y)}"{named}>{escape(str(words))}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> None:
        """Draw a line."""
        places = " ".join(
            f'{name}="{_number(value)}"'
            for name, value in zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True)
        )
        self.marks.append(f'<line {places} class="{kind}"/>')

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, stroke: str = "none", round: int = 3
    ) -> None:
        """Draw a box with its upper left corner at a place."""
        self.marks.append(
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
            f' rx="{round}" fill="{fill}" stroke="{stroke}"/>'
        )

    def dot(self, x: float, y: float, label: object = "", fill: str = "#eceff1", stroke: str = INK) -> None:
        """Draw a record, with a word in it."""
        self.marks.append(
            f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{10 if label != "" else 5}"'
            f' fill="{fill}" stroke="{stroke}"/>'
        )
        if label != "":
            self.text(x, y + 4, label)

    def svg(self, height: float, width: float = WIDTH) -> str:
        """Return the whole as a file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_number(width)} {_number(height)}"'
            f' role="img"><title>{escape(self.title)}</title><style>{_STYLE}</style>'
            f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>'
        )
        return head + "\n".join(["", *self.marks, "</svg>", ""])

"""A cast as one SVG: its lines, shown one after the other, and at the end all of them.

It needs no script. Where a picture is shown without movement, or its reader wants none, everything is there at once.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from tests.casts.telling import Shown
from tests.casts.terminal import COLUMNS, Line, Span

LETTER, HEIGHT, SIZE = 7.8, 18, 13
MARGIN, BAR = 16, 30
COLOURS = {"red": "#ff8080", "green": "#7ddc8a", "yellow": "#f2c96d", "blue": "#80b4ff", "purple": "#d0a0ff"}
COLOURS |= {"cyan": "#7fdbe6", "dim": "#8fa0b3"}
STYLE = (
    "text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#dde5ee;white-space:pre}"
    "@keyframes k{from,to{opacity:0}}.l{animation:k linear}.b{font-weight:700}.t{fill:#8fa0b3}"
    "@media(prefers-reduced-motion:reduce){.l{animation:none}}"
)
SHOWN = re.compile(r'<text class="l"[^>]*>(.*?)</text>')


def draw(title: str, shown: Sequence[Shown]) -> str:
    """The picture of a cast."""
    rows: list[str] = []
    at_s, y = 0.0, BAR + HEIGHT
    for one in shown:
        at_s += one.after_s
        for line in _folded(one.line):
            if line:
                rows.append(_row(line, y, at_s))
            y += HEIGHT
    width, height = round(COLUMNS * LETTER + 2 * MARGIN), y - HEIGHT + MARGIN
    used = "".join(f".{name}{{fill:{value}}}" for name, value in COLOURS.items() if f'class="{name}' in "".join(rows))
    dots = "".join(f'<circle cx="{MARGIN + 4 + at * 16}" cy="15" r="5" fill="#3b4757"/>' for at in range(3))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{html.escape(title)}">',
            f"<title>{html.escape(title)}</title><style>{STYLE}{used}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#141b24"/>{dots}',
            f'<text class="t" x="{width / 2:g}" y="19" text-anchor="middle">{html.escape(title)}</text>',
            *rows,
            "</svg>\n",
        ]
    )


def _row(line: Line, y: int, at_s: float) -> str:
    """A line that is hidden until its time has come. Its length is given, so that tables stand with any letters."""
    spans = "".join(_span(span) for span in line)
    length = sum(len(span.text) for span in line) * LETTER
    given = f'textLength="{length:g}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="l" x="{MARGIN}" y="{y}" {given} style="animation-duration:{at_s:.2f}s">{spans}</text>'


def _span(span: Span) -> str:
    kinds = " ".join(word for word in (span.colour, "b" if span.bold else "") if word)
    text = html.escape(span.text, quote=False)
    return f'<tspan class="{kinds}">{text}</tspan>' if kinds else text


def _folded(line: Line) -> list[Line]:
    """The line as a terminal of this width folds it, without blanks at its end."""
    rest = [(letter, span) for span in line for letter in span.text]
    while rest and rest[-1][0] == " ":
        rest.pop()
    parts = [rest[at : at + COLUMNS] for at in range(0, len(rest), COLUMNS)] or [[]]
    return [tuple(_joined(part)) for part in parts]


def _joined(letters: Sequence[tuple[str, Span]]) -> list[Span]:
    spans: list[Span] = []
    for letter, span in letters:
        if spans and (spans[-1].colour, spans[-1].bold) == (span.colour, span.bold):
            spans[-1] = Span(spans[-1].text + letter, span.colour, span.bold)
        else:
            spans.append(Span(letter, span.colour, span.bold))
    return spans


def text_of(picture: str) -> list[str]:
    """The lines that a picture shows."""
    return [html.unescape(re.sub(r"<[^>]*>", "", row)) for row in SHOWN.findall(picture)]

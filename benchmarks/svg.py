"""Line charts as SVG, by hand: panels below each other that share their x axis. Knows nothing of what is drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]
COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#34495e", "#d35400", "#7f8c8d")
WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 30, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines by name. `marks` are level lines (targets, bounds); `ticks` name places on the x axis."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    marks: Mapping[str, float] | None = None
    ticks: Mapping[float, str] | None = None
    log_x: bool = False


def drawing(panels: Sequence[Panel]) -> str:
    """All panels as one SVG document."""
    body = "\n".join(f'<g transform="translate(0,{at * HEIGHT})">{_panel(one)}</g>' for at, one in enumerate(panels))
    size = f'width="{WIDTH}" height="{HEIGHT * len(panels)}"'
    style = "text{font:12px sans-serif;fill:#222} .t{font-weight:bold} path,line{fill:none}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(each) for each in (self.low, self.high, value)) if self.log else (
            self.low, self.high, value,
        )  # fmt: skip
        return round(self.begin + (at - low) / ((high - low) or 1.0) * (self.end - self.begin), 1)


def _panel(panel: Panel) -> str:
    points = [point for line in panel.lines.values() for point in line]
    marks = dict(panel.marks or {})
    if not points:
        return _text(LEFT, TOP, f"{panel.title}: nothing was measured", "t")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across = _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT, panel.log_x)
    top = _round_up(max(*ys, *marks.values(), 1e-9))
    up = _Scale(0.0, top, HEIGHT - BOTTOM, TOP)
    parts = [
        _text(LEFT, TOP - 12, f"{panel.title} ({panel.y})", "t"),
        _text(WIDTH - RIGHT, HEIGHT - 8, panel.x, "", "end"),
    ]
    parts += [_level(up(top * part / 4), f"{top * part / 4:g}") for part in range(5)]
    ticks = panel.ticks or {across.low + (across.high - across.low) * at / 4: "" for at in range(5)}
    parts += [_text(across(at), HEIGHT - BOTTOM + 16, name or f"{at:.4g}", "", "middle") for at, name in ticks.items()]
    parts += [_mark(up(value), f"{name} {value:g}") for name, value in marks.items()]
    for at, (name, line) in enumerate(panel.lines.items()):
        parts.append(_line(name, [(across(x), up(y)) for x, y in line], at))
    return "".join(parts)


def _line(name: str, points: Points, at: int) -> str:
    colour = COLOURS[at % len(COLOURS)]
    path = "M" + "L".join(f"{x},{y}" for x, y in points)
    dots = (
        "".join(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in points) if len(points) < 20 else ""
    )
    legend = TOP + 8 + 16 * at
    return (
        f'<path d="{path}" stroke="{colour}" stroke-width="1.5"/>{dots}'
        f'<rect x="{WIDTH - RIGHT + 12}" y="{legend - 8}" width="10" height="10" fill="{colour}"/>'
        + _text(WIDTH - RIGHT + 28, legend + 1, name)
    )


def _level(y: float, words: str) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
    return line + _text(LEFT - 6, y + 4, words, "", "end")


def _mark(y: float, words: str) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#000" stroke-dasharray="5 4"/>'
    return line + _text(LEFT + 6, y - 4, words)


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)

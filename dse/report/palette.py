"""The colours of every page, chart and drawing: one meaning, one colour, and its counterpart on a dark screen."""

import re
from collections.abc import Mapping
from types import MappingProxyType

THEME: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "paper": ("#ffffff", "#14191e"),
        "ink": ("#1d2b36", "#e4eaef"),
        "quiet": ("#5a6b78", "#a3b3c0"),
        "soft": ("#eef2f5", "#242d35"),
        "rule": ("#d9e1e7", "#36434e"),
        "line": ("#c4ced6", "#4a5864"),
        "pale": ("#a9bccb", "#61778a"),
        "grey": ("#3d3d3d", "#b4bec6"),
        "blue": ("#1f6f8b", "#4fb0cf"),
        "red": ("#d1495b", "#f0717f"),
        "yellow": ("#edae49", "#edb95f"),
        "green": ("#66a182", "#7fc29e"),
        "purple": ("#8d5b9f", "#bb8fcc"),
        "brown": ("#b07d48", "#cb9d6a"),
        "olive": ("#b9c95a", "#c3d36a"),
        "sky": ("#4f9db5", "#86cbdf"),
        "rose": ("#e58a95", "#f3b0b8"),
        "lilac": ("#c2a8cd", "#d9c5e1"),
    }
)
"""(on a light ground, on a dark one) of each colour, which is a variable of this name in the style of a page."""

PAPER, INK, QUIET, SOFT, RULE, LINE, PALE, GREY = (light for light, _ in list(THEME.values())[:8])
"""Ground; text; remarks; what a bar leaves free; rules of tables; edges; what is only bounded or dominated; what stands
next to an answer."""

BLUE, RED, YELLOW, GREEN, PURPLE, BROWN, _OLIVE, _SKY, _ROSE, _LILAC = (light for light, _ in list(THEME.values())[8:])

ON_COLOUR = THEME["paper"][1]
"""Text and edges on a colour that is as light on a dark screen as on a light one."""

FONT = "system-ui, sans-serif"

ANSWER = RED
"""The answer itself, wherever it is marked."""

CATEGORIES = (BLUE, RED, YELLOW, GREEN, PURPLE, BROWN, GREY, PALE)
"""For things that differ by number alone (chips, groups of points)."""

RAMP = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
"""Of an amount that rises, by fifths of its range (matplotlib's viridis)."""

HEAT = ("#f3d9a4", "#d95f4e")
"""Of what has the least and the most to do, and all between: none is of the theme, so they are alike on any ground."""

LESS, MORE = RED, BLUE
"""Two directions of one knob."""

OPERATOR_CLASSES = {
    "tensor": ("tensor", BLUE),
    "vector": ("vector", YELLOW),
    "fused": ("fused tensor + vector", GREEN),
    "collective": ("collective", RED),
}
"""(label, colour) of each operator class, in the order in which they are listed."""

PART_COLOURS = {
    **{name: colour for name, (_, colour) in OPERATOR_CLASSES.items()},
    "several": _OLIVE,
    "waiting": LINE,
    "forward": BLUE,
    "backward": _SKY,
    "recomputation": BROWN,
    "transfer": _ROSE,
    "synchronisation": PURPLE,
    "update": GREY,
    "between": GREEN,
    "replicas": _LILAC,
    "optimizer": INK,
    "bubble": PALE,
    "weights": BLUE,
    "state": _SKY,
    "activations": YELLOW,
    "stash": BROWN,
    "free": SOFT,
    "time": BLUE,
    "distance": YELLOW,
    "adapter": BROWN,
}
"""The colour of each kind of part that an answer card shows (:class:`dse.report.view.Share`)."""

_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_VARIABLE = re.compile(r"var\(--(\w+)\)")
_NAMES = {light: name for name, (light, _) in THEME.items()}


def category(number: int) -> str:
    """The colour of the ``number``-th of many; they repeat."""
    return CATEGORIES[number % len(CATEGORIES)]


def css(colour: str) -> str:
    """A colour of the theme as its variable; any other as it is."""
    return f"var(--{_NAMES[colour]})" if colour in _NAMES else colour


def themed(drawing: str) -> str:
    """An SVG for a page: its colours of the theme as variables, so that it is dark where the page is."""
    return _COLOUR.sub(lambda match: css(match[0]), drawing)


def light(text: str) -> str:
    """HTML or SVG outside our pages: with the colours on a light ground instead of variables."""
    return _VARIABLE.sub(lambda match: THEME[match[1]][0], text)


def _variables(place: int) -> str:
    return "".join(f"--{name}:{colours[place]};" for name, colours in THEME.items())


THEME_STYLE = (
    f":root {{ color-scheme: light dark; {_variables(0)} }}\n"
    f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(1)} }} }}\n"
)
"""The variables: dark where the reader's screen is, light in print."""

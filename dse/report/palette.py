"""The colours of every page and chart: one meaning, one colour."""

INK, GREY, PALE, LINE = "#1d2b36", "#3d3d3d", "#a9bccb", "#c4ced6"
"""Text; what stands beside an answer; what is only bounded or dominated; edges and rules."""

BLUE, RED, YELLOW, GREEN, PURPLE, BROWN = "#1f6f8b", "#d1495b", "#edae49", "#66a182", "#8d5b9f", "#b07d48"

FONT = "system-ui, sans-serif"

ANSWER = RED
"""The answer itself, wherever it is marked."""

CATEGORIES = (BLUE, RED, YELLOW, GREEN, PURPLE, BROWN, GREY, PALE)
"""For things that differ by number alone (chips, groups of points)."""

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
    "several": "#b9c95a",
    "waiting": LINE,
    "forward": BLUE,
    "backward": "#4f9db5",
    "recomputation": BROWN,
    "transfer": "#e58a95",
    "synchronisation": PURPLE,
    "update": GREY,
    "between": GREEN,
    "replicas": "#c2a8cd",
    "optimizer": INK,
    "bubble": PALE,
    "weights": BLUE,
    "state": "#4f9db5",
    "activations": YELLOW,
    "stash": BROWN,
    "free": "#eef2f5",
    "time": BLUE,
    "distance": YELLOW,
    "adapter": BROWN,
}
"""The colour of each kind of part that an answer card shows (:class:`dse.report.view.Share`)."""


def category(number: int) -> str:
    """The colour of the ``number``-th of many; they repeat."""
    return CATEGORIES[number % len(CATEGORIES)]

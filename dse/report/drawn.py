"""Figures drawn by matplotlib: as SVG for pages, as PNG for slides and where nothing shows SVG.

The same figure gives the same bytes, whatever the user's own settings of matplotlib are. Import this module where a
picture is drawn: matplotlib takes half a second.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from xml.etree import ElementTree

from matplotlib import style
from matplotlib.figure import Figure

_SETTINGS: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": "dse", "text.parse_math": False}
"""Beside matplotlib's defaults: names stay text, and what is drawn alone decides the identifiers in an SVG."""

_DOTS_PER_INCH = 160

_NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}

Draw = Callable[[], Figure]


def png_of(draw: Draw) -> bytes:
    """A figure in the PNG format."""
    return _saved(draw, "png")


def svg_of(draw: Draw, css_class: str, tooltips: Mapping[str, Sequence[str]]) -> str:
    """A figure as an SVG element of this class, to stand on a page with others.

    Args:
        draw: makes the figure.
        css_class: of the element.
        tooltips: by the identifier of a collection in the figure (``gid``), of its members in their order. An
            identifier that is given becomes a class; the members of a group without tooltips have none.
    """
    root = ElementTree.fromstring(_saved(draw, "svg"))
    # On a page with other drawings: no style that holds for all of it, and no identifier twice.
    root.remove(root[0])
    root.attrib |= {"class": css_class, "role": "img", "stroke-linejoin": "round"}
    for group in root.iterfind(".//{*}g"):
        name = group.attrib.pop("id", "")
        if name in tooltips:
            group.set("class", name)
            for path, text in zip(group, tooltips[name], strict=False):
                ElementTree.SubElement(path, f"{{{_NAMESPACES['']}}}title").text = text
    for prefix, address in _NAMESPACES.items():
        ElementTree.register_namespace(prefix, address)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _saved(draw: Draw, kind: Literal["png", "svg"]) -> bytes:
    """A file of this kind without its date and the version of the library."""
    content = io.BytesIO()
    metadata = ("Software",) if kind == "png" else ("Date", "Creator", "Format", "Type")
    with style.context(["default", _SETTINGS]):
        draw().savefig(content, format=kind, dpi=_DOTS_PER_INCH, metadata=dict.fromkeys(metadata))
    return content.getvalue()

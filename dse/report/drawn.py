"""Figures drawn by matplotlib: as SVG for pages, as PNG for slides and where nothing shows SVG.

The same figure gives the same bytes, whatever the user's own settings of matplotlib are. Import this module where a
picture is drawn: matplotlib takes half a second.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from xml.etree import ElementTree

from matplotlib import style
from matplotlib.figure import Figure

_SETTINGS: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": "dse", "text.parse_math": False}
"""Beside matplotlib's defaults: names stay text, and what is drawn alone decides the identifiers in an SVG."""

_DOTS_PER_INCH = 160

_COORDINATE, _SPACES = re.compile(r"-?\d+\.\d+"), re.compile(r"\s+")

_NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}


@dataclass(frozen=True)
class DrawnFigure:
    """A figure in both formats; it is drawn and laid out once, which takes longer than to write it.

    Attributes:
        draw: makes the figure.
        css_class: of the SVG element.
        tooltips: by the identifier of a collection in the figure (``gid``), of its members in their order. In an SVG,
            an identifier that is given becomes a class; the members of a group without tooltips have none.
    """

    draw: Callable[[], Figure]
    css_class: str
    tooltips: Mapping[str, Sequence[str]]

    @cached_property
    def svg(self) -> str:
        """As an SVG element, to stand on a page with others."""
        root = ElementTree.fromstring(self._saved("svg"))
        # On a page with other drawings: no style that holds for all of it, and no identifier twice.
        root.remove(root[0])
        root.attrib |= {"class": self.css_class, "role": "img", "stroke-linejoin": "round"}
        for group in root.iterfind(".//{*}g"):
            name = group.attrib.pop("id", "")
            if name in self.tooltips:
                group.set("class", name)
                for path, text in zip(group, self.tooltips[name], strict=False):
                    ElementTree.SubElement(path, f"{{{_NAMESPACES['']}}}title").text = text
        _shorten(root)
        for prefix, address in _NAMESPACES.items():
            ElementTree.register_namespace(prefix, address)
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    @cached_property
    def png(self) -> bytes:
        """In the PNG format."""
        return self._saved("png")

    @cached_property
    def _figure(self) -> Figure:
        """Laid out without regard to a format, so that neither depends on which is asked for first."""
        figure = self.draw()
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)
        return figure

    def _saved(self, kind: Literal["png", "svg"]) -> bytes:
        """A file of this kind without its date and the version of the library."""
        content = io.BytesIO()
        metadata = ("Software",) if kind == "png" else ("Date", "Creator", "Format", "Type")
        with style.context(["default", _SETTINGS]):
            self._figure.savefig(content, format=kind, dpi=_DOTS_PER_INCH, metadata=dict.fromkeys(metadata))
        return content.getvalue()


def _shorten(root: ElementTree.Element) -> None:
    """No spaces between elements, coordinates in tenths of a point, what all paths of a group share said once."""
    for element in root.iter():
        element.text, element.tail = (
            None if text is None or not text.strip() else text for text in (element.text, element.tail)
        )
        if "d" in element.attrib:
            element.set("d", _SPACES.sub(" ", _COORDINATE.sub(_tenths, element.get("d", ""))).strip())
    for group in root.iterfind(".//{*}g"):
        if len(group) > 1 and all(each.tag.endswith("}path") for each in group):
            _lift(group)


def _lift(group: ElementTree.Element) -> None:
    """What every path of a group has alike, as attributes and styles of the group."""
    clips = {each.get("clip-path") for each in group}
    if len(clips) == 1 and None not in clips:
        group.set("clip-path", group[0].get("clip-path", ""))
        for each in group:
            del each.attrib["clip-path"]
    styles = [each.get("style", "").split("; ") for each in group]
    shared = [entry for entry in styles[0] if all(entry in style for style in styles)]
    if shared != [""] and shared and group.get("style") is None:
        group.set("style", "; ".join(shared))
        for each, style in zip(group, styles, strict=True):
            own = [entry for entry in style if entry not in shared]
            each.attrib.pop("style")
            if own:
                each.set("style", "; ".join(own))


def _tenths(match: re.Match[str]) -> str:
    return f"{float(match[0]):.1f}".removesuffix(".0")

"""Figures drawn by matplotlib: as SVG for pages, as PNG for slides and where nothing shows SVG.

The same figure gives the same bytes, regardless of the user's own settings of matplotlib. Import this module where a
picture is drawn: matplotlib takes half a second.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal
from xml.etree import ElementTree

from matplotlib import style
from matplotlib.figure import Figure

from dse.report.palette import INK, LINE

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dse",
    "text.parse_math": False,
    "axes.edgecolor": LINE,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
"""In addition to matplotlib's defaults: names stay text, what is drawn alone decides the identifiers in an SVG, and
the colours are those of the theme.
"""

_DOTS_PER_INCH = 160

MAX_TOOLTIPS = 2000
"""Members of a group up to which each has its tooltip: of more, none has, and those of one style are one path."""

_COORDINATE, _AROUND_LETTERS = re.compile(r"-?\d+\.\d+"), re.compile(r" ?([A-Za-z]) ?")

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
        """As an SVG element, for a page with others."""
        root = ElementTree.fromstring(self._saved("svg"))
        # On a page with other drawings: no style that holds for all of it, and no identifier twice.
        root.remove(root[0])
        root.attrib |= {"class": self.css_class, "role": "img", "stroke-linejoin": "round"}
        for group in root.iterfind(".//{*}g"):
            name = group.attrib.pop("id", "")
            if name in self.tooltips:
                group.set("class", name)
            if len(group) <= MAX_TOOLTIPS and name in self.tooltips:
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
        """Laid out without regard to a format, so that neither depends on which is requested first."""
        with style.context(["default", _SETTINGS]):
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
    """No spaces between elements, coordinates in tenths of a point, and what neighbours have alike said once."""
    for element in root.iter():
        element.text, element.tail = (
            None if text is None or not text.strip() else text for text in (element.text, element.tail)
        )
        for name in ("d", "x", "y"):
            if name in element.attrib:
                element.set(name, _COORDINATE.sub(_tenths, element.get(name, "")))
        if "d" in element.attrib:
            element.set("d", _short_path(element.get("d", "").split()))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
    for group in list(root.iter()):
        if group.get("class") is None or len(group) > MAX_TOOLTIPS:
            _join(group)
        if len(group) > 1 and all(each.tag.endswith("}path") for each in group):
            _lift(group)


def _join(group: ElementTree.Element) -> None:
    """One path for neighbours of one style, and one group for texts."""
    members = [each[0] if each.tag.endswith("}g") and not each.attrib and len(each) == 1 else each for each in group]
    group[:] = []
    for kind, neighbours in groupby(members, key=_kind):
        alike = list(neighbours)
        if kind is None or len(alike) == 1:
            group.extend(alike)
        elif kind[0].endswith("}path"):
            alike[0].set("d", "".join(each.get("d", "") for each in alike))
            group.append(alike[0])
        else:
            shared = ElementTree.SubElement(group, f"{{{_NAMESPACES['']}}}g", {"style": kind[1]})
            for each in alike:
                del each.attrib["style"]
            shared.extend(alike)


def _kind(element: ElementTree.Element) -> tuple[str, str, str] | None:
    """What neighbours must have alike to be joined; None of what stays alone."""
    if len(element) or not element.tag.endswith(("}path", "}text")) or "style" not in element.attrib:
        return None
    if set(element.keys()) - {"d", "x", "y", "style", "clip-path"}:
        return None
    return element.tag, element.get("style", ""), element.get("clip-path", "")


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


def _short_path(words: Sequence[str]) -> str:
    """A path without needless spaces; its horizontal and vertical lines have one coordinate."""
    if not set(filter(str.isalpha, words)) <= {"M", "L", "z"}:
        return _AROUND_LETTERS.sub(r"\1", " ".join(words))
    parts, last, at = [], ("", ""), 0
    while at < len(words):
        if words[at] == "z":
            parts.append("z")
            at += 1
            continue
        letter, x, y = words[at : at + 3]
        if letter == "L" and y == last[1]:
            parts.append(f"H{x}")
        elif letter == "L" and x == last[0]:
            parts.append(f"V{y}")
        else:
            parts.append(f"{letter}{x} {y}")
        last, at = (x, y), at + 3
    return "".join(parts)

"""Every value of a spec with its source, as rows of text."""

from collections.abc import Iterator, Mapping
from typing import Any

SpecRow = tuple[str, str, str]
"""(key, value, source); the source is empty for names and descriptions."""

_VALUES = ("value", "name")
"""Keys other than ``source`` that contain the value itself."""


def spec_rows(document: Mapping[str, Any]) -> list[SpecRow]:
    """The values of a spec's document, in its order; keys are dotted, places in lists in brackets."""
    return [row for key, value in document.items() for row in _rows(key, value)]


def _rows(key: str, value: Any) -> Iterator[SpecRow]:
    if isinstance(value, dict) and "source" in value:
        for name, part in value.items():
            at = key if name in _VALUES else f"{key}.{name}"
            if _is_table(part):
                yield from ((f"{at}[{place}]", _text(each), str(value["source"])) for place, each in enumerate(part))
            elif name != "source":
                yield at, _text(part), str(value["source"])
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _rows(f"{key}.{name}", part)
    elif _is_table(value):
        for place, part in enumerate(value):
            yield from _rows(f"{key}[{place}]", part)
    else:
        yield key, _text(value), ""


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(part, dict | list) for part in value)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(part)}" for name, part in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list) else " ".join(str(value).split())

"""Results in which one entry was changed: what a forger might try, and what a check must find."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Place = tuple[str | int, ...]
"""Where an entry stands: keys and positions from the top of the document."""


def places(document: Any, place: Place = ()) -> Iterator[Place]:
    """The places of values that contain no others."""
    if isinstance(document, dict | list) and document:
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in pairs:
            yield from places(value, (*place, key))
    else:
        yield place


def kinds(document: Any) -> set[Place]:
    """The kinds of entries of a document, with one sign for every position and for every name (:func:`sampled`)."""
    return {_kind(document, place) for place in places(document)}


def sampled(document: Any, count: int) -> list[Place]:
    """One place of every kind of entry, then others, evenly, up to ``count`` in all.

    Entries are of one kind where they differ in positions and names alone. Names are the keys of a mapping whose values
    all have the same keys.
    """
    every = list(places(document))
    kinds = {_kind(document, place): place for place in reversed(every)}
    first = sorted(kinds.values(), key=str)
    rest = [place for place in every if place not in set(first)]
    left = max(0, count - len(first))
    return first + rest[:: max(1, len(rest) // left)][:left] if left else first


def _kind(document: Any, place: Place) -> Place:
    """``place`` with one sign for every position and for every name."""
    kind: list[str | int] = []
    for key in place:
        kind.append("#" if isinstance(key, int) or _is_by_name(document) else key)
        document = document[key]
    return tuple(kind)


def _is_by_name(node: Any) -> bool:
    keys = [tuple(value) if isinstance(value, dict) else None for value in node.values()]
    return len(keys) > 1 and keys[0] is not None and len(set(keys)) == 1


def others(value: Any) -> Sequence[Any]:
    """Other values of the same type, and one of another type."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, -1 - value, str(value)]
    if isinstance(value, float):
        return [value * 1.001 + 1e-6, -1.0 - value, str(value)]
    if isinstance(value, str):
        return [value + "x", 7]
    if value is None:
        return ["x", 7.5]
    return ["x", [7], {"x": 7}]


def altered(document: Mapping[str, Any], place: Place) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what was done, the document with the entry at ``place`` changed or missing), one for each way."""
    for other in others(_at(document, place)):
        copy, holder = _copied(document, place)
        holder[place[-1]] = other
        yield f"{_text(place)} = {json.dumps(other)}", copy
    copy, holder = _copied(document, place)
    del holder[place[-1]]
    yield f"{_text(place)} is missing", copy


def _copied(document: Mapping[str, Any], place: Place) -> tuple[dict[str, Any], Any]:
    """The document with containers of its own along ``place``, and the last one; everything else is shared."""
    top: dict[str, Any] = dict(document)
    holder: Any = top
    for key in place[:-1]:
        holder[key] = holder[key].copy()
        holder = holder[key]
    return top, holder


def _holder(document: Any, place: Place) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


def _at(document: Any, place: Place) -> Any:
    return _holder(document, place)[place[-1]]


def _text(place: Place) -> str:
    return ".".join(map(str, place))

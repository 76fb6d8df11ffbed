"""What is wrong with an input, and documents judged field by field.

Every reader of the project (:mod:`hardware.documents`) raises :class:`InputError`, which holds one :class:`Fault` for
each thing that is wrong, so the command line can print one line per fault and exit with 2, and no half-read input
travels further.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

Model = TypeVar("Model", bound=BaseModel)

_SHOWN_VALUE_CHARACTERS = 60
_SHOWN_KEY_CHARACTERS = 240
_SHOWN_RULE_CHARACTERS = 1000

MAX_FAULTS = 50
"""Faults of one input that are listed."""

SMALLEST = 1e-30
"""The smallest positive number that a spec may hold: products of a few of them are still numbers."""

_MAX_COMPARED_NAMES = 2_000
_MAX_COMPARED_CHARACTERS = 120
_NUMBERS = re.compile(r"\d+")
_CODE = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}(?=\d)")
_MIN_BEGINNING = 3
"""Characters of a name that is offered what it begins."""
_LISTED_CHARACTERS = 500
_LISTED_NAMES = 5


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input.

    ``file`` is the file or the command-line option it came from, ``key`` the path inside it (``layers.3.weight_bytes``)
    and ``rule`` what must hold. ``suggestion`` is the nearest valid name, where the value is a misspelt one.
    """

    file: str
    key: str
    value: str
    rule: str
    suggestion: str | None = None

    def __str__(self) -> str:
        """One printable line, of limited length for any input."""
        places = [one_line(part, _SHOWN_KEY_CHARACTERS) for part in (self.file, self.key, self.value) if part]
        hint = f" (did you mean {one_line(self.suggestion, _SHOWN_VALUE_CHARACTERS)}?)" if self.suggestion else ""
        return ": ".join([*places, one_line(self.rule, _SHOWN_RULE_CHARACTERS)]) + hint


class InputError(ValueError):
    """Bad input: carries its faults, each a line of its own; those beyond :data:`MAX_FAULTS` are not listed.

    Of ``faults`` no more are drawn than are listed, so that a long input with a fault in every line is refused at once.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        listed = list(islice(faults, MAX_FAULTS + 1))
        if len(listed) > MAX_FAULTS:
            listed[-1] = Fault(listed[0].file, "", "", f"more than {MAX_FAULTS} faults; the others are not listed")
        self.faults = tuple(listed)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def fail(file: str | Path, key: str, value: object, rule: str, suggestion: str | None = None) -> InputError:
    """An :class:`InputError` of a single fault, to be raised by the caller."""
    return InputError([Fault(str(file), key, shown(value), rule, suggestion)])


def shown(value: object) -> str:
    """``value`` as it is shown in an error line: as text, short, on one line; what cannot be printed by its code."""
    if isinstance(value, str):
        return one_line(value, _SHOWN_VALUE_CHARACTERS)
    encoder = json.JSONEncoder(default=lambda other: one_line(str(other), _SHOWN_VALUE_CHARACTERS))
    pieces: list[str] = []
    try:
        for piece in encoder.iterencode(value):  # no more of a long list than is shown
            pieces.append(piece)
            if sum(map(len, pieces)) > _SHOWN_VALUE_CHARACTERS:
                break
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__  # an object that holds itself, or keys that are not text
    return one_line("".join(pieces), _SHOWN_VALUE_CHARACTERS)


def one_line(text: str, max_characters: int) -> str:
    """``text`` on one line of at most ``max_characters`` printable characters; others are replaced by their codes."""
    text = " ".join(text[: 4 * max_characters].split())
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The valid name that ``name`` most likely meant, or None; also where there is too much to compare.

    Numbers are not misspellings: ``a100-80gb`` may mean ``a100-sxm``, but neither ``h100-96gb`` nor ``v100``; of
    another machine, model or size nothing is said.
    """
    return next(iter(_close(name, (each for each in names if _may_mean(name, each)), 1, 0.5)), None)


def _may_mean(name: str, other: str) -> bool:
    """Whether two names differ in their letters alone, or one has more numbers behind those that they share.

    Of letters in front of a number, one or two are a code (a100, gb200), and must be the same.
    """
    ours, theirs = (_NUMBERS.findall(each.lower()) for each in (name, other))
    if any(one != two for one, two in zip(ours, theirs, strict=False)):
        return False
    codes = [_CODE.search(each.lower()) for each in (name, other)]
    one, two = ("" if code is None else code[0] for code in codes)
    return one == two or not (one and two)


def _close(name: str, names: Iterable[str], count: int, cutoff: float) -> list[str]:
    """Up to ``count`` of ``names`` that are most like ``name``, the nearest first; none where there are too many.

    Those that continue ``name`` are nearer than all others: ``h100`` means ``h100-sxm`` before ``v100``.
    """
    lowered = {candidate.lower(): candidate for candidate in islice(names, _MAX_COMPARED_NAMES + 1)}
    if len(lowered) > _MAX_COMPARED_NAMES or len(name) > _MAX_COMPARED_CHARACTERS:
        return []
    candidates = [candidate for candidate in lowered if len(candidate) <= _MAX_COMPARED_CHARACTERS]
    begun = name.lower()
    longer = [each for each in candidates if len(begun) >= _MIN_BEGINNING and each.startswith(begun)]
    close = [*sorted(longer, key=len), *difflib.get_close_matches(begun, candidates, n=count, cutoff=cutoff)]
    return [lowered[match] for match in list(dict.fromkeys(close))[:count]]


def choose(file: str, key: str, name: str, names: Iterable[str], what: str) -> str:
    """``name`` if it is one of ``names``; otherwise raises the error that names the nearest one.

    Of many names only those most like ``name`` are listed.
    """
    known = sorted(names)
    if name in known:
        return name
    listed = f"known: {', '.join(known)}"
    if len(listed) > _LISTED_CHARACTERS:
        similar = _close(name, known, _LISTED_NAMES, 0.0) or known[:_LISTED_NAMES]
        listed = f"the nearest of {len(known):,} known names: {', '.join(similar)}"
    raise fail(file, key, name, f"no {what} of this name; {listed}", nearest(name, known))


class Document(BaseModel):
    """A part of a document: values are of their field's own type, and there are no other keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def validate(model: type[Model], document: Any, path: str | Path, strict: bool | None = None) -> Model:
    """``document`` as a ``model``; every violated field becomes one fault that names file, key and rule.

    ``strict``: whether every value must be of its field's own type, so that ``"5"`` is not a number; None leaves that
    to the model.
    """
    if not isinstance(document, dict):
        raise fail(path, "", document, "the document must be a mapping of keys to values")
    try:
        return model.model_validate(document, strict=strict)
    except ValidationError as error:
        items = error.errors(include_url=False)
        raise InputError(_fault(model, item, path) for item in items if not _follows(item, items)) from error


_RULES = {
    "missing": "the key is missing",
    "model_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of at most 18 digits",
    "int_from_float": "must be a whole number",
    "finite_number": "must be finite",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "too_short": "must have at least {min_length} entries, but has {length}",
    "too_long": "must have at most {max_length} entries, but has {length}",
    "string_too_short": "must have at least {min_length} characters, but has {length}",
    "string_too_long": "must have at most {max_length} characters, but has {length}",
}
"""Rules by pydantic's types of errors; its own texts speak of Python's types and of its validation."""


def _follows(item: Any, items: Sequence[Any]) -> bool:
    """Whether a fault is that of its own parts: pydantic counts only those that are valid."""
    location = item["loc"]
    return item["type"] == "too_short" and any(
        len(other["loc"]) > len(location) and other["loc"][: len(location)] == location for other in items
    )


def _fault(model: type[BaseModel], item: Any, path: str | Path) -> Fault:
    location = [str(part) for part in item["loc"]]
    is_key = location[-1:] == ["[key]"]  # that of a mapping is wrong, and no value of it
    location = location[:-1] if is_key else location
    key = ".".join(location)
    if item["type"] == "extra_forbidden":
        known = _field_names(model, location[:-1])
        rule = f"unknown key; known: {', '.join(sorted(known))}" if known else "unknown key"
        return Fault(str(path), key, "", rule, nearest(location[-1], known))
    # A rule of the whole document has no value of its own to show.
    value = "" if is_key or not location or item["type"] == "missing" else shown(item["input"])
    rule = _rule(item)
    if item["type"] == "model_type" and {"value", "source"} <= {*_field_names(model, location)}:
        rule += ": value, a number in the unit of the key, and source"
    suggestion = None
    if item["type"] == "literal_error":
        choices = [text.strip(" '") for text in item["ctx"]["expected"].replace(" or ", ",").split(",")]
        suggestion = nearest(str(item["input"]), choices)
    return Fault(str(path), key, value, rule[0].lower() + rule[1:], suggestion)


def _rule(item: Any) -> str:
    """What must hold, in the words of :data:`_RULES`, or else in pydantic's."""
    kind, context = item["type"], {key: _plain(value) for key, value in item.get("ctx", {}).items()}
    if kind not in _RULES:
        return str(item["msg"]).removeprefix("Value error, ")
    # Read leniently, a number may have been given as text.
    if kind == "greater_than_equal" and context["ge"] == SMALLEST and float(item["input"]) <= 0:
        return "must be greater than 0"
    if context.get("min_length") == 1:
        return "must not be empty"
    if "length" in _RULES[kind]:
        context["length"] = len(item["input"])
    return _RULES[kind].format(**context)


def _plain(value: Any) -> Any:
    """``value``, a whole number without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _field_names(model: type[BaseModel], location: list[str]) -> list[str]:
    """Field names of the (nested) model at ``location``; empty where the annotation is not a model."""
    current: Any = model
    for part in location:
        if isinstance(current, type) and issubclass(current, BaseModel):
            if part not in current.model_fields:
                continue  # a position in a list, or a key of a dictionary, of such models
            current = current.model_fields[part].annotation
        while current is not None and not isinstance(current, type):
            arguments = [a for a in getattr(current, "__args__", ()) if a is not type(None) and a is not Ellipsis]
            current = arguments[-1] if arguments else None
        if current is None:
            return []
    if not (isinstance(current, type) and issubclass(current, BaseModel)):
        return []
    return [field.alias or name for name, field in current.model_fields.items()]

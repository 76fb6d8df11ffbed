"""Reading what people write: YAML and JSON documents, judged field by field.

Every reader of the project raises :class:`InputError`, which holds one :class:`Fault` for each thing that is wrong,
so the command line can print one line per fault and exit with 2, and no half-read input travels further.
"""

import difflib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hardware.input_files import content_of

Model = TypeVar("Model", bound=BaseModel)

_SHOWN_VALUE_CHARACTERS = 60


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
        where = ": ".join(part for part in (self.file, self.key, self.value) if part)
        hint = f" (did you mean {self.suggestion}?)" if self.suggestion else ""
        return f"{where}: {self.rule}{hint}"


class InputError(ValueError):
    """Bad input: carries every fault that was found, each a line of its own."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def fail(file: str | Path, key: str, value: object, rule: str, suggestion: str | None = None) -> InputError:
    """An :class:`InputError` of a single fault, to be raised by the caller."""
    return InputError([Fault(str(file), key, shown(value), rule, suggestion)])


def shown(value: object) -> str:
    """``value`` as it is shown in an error line: as text, short, on one line; what cannot be printed by its code."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return text if len(text) <= _SHOWN_VALUE_CHARACTERS else text[: _SHOWN_VALUE_CHARACTERS - 1] + "…"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The valid name that ``name`` most likely meant, or None."""
    lowered = {candidate.lower(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return lowered[matches[0]] if matches else None


def choose(file: str, key: str, name: str, names: Iterable[str], what: str) -> str:
    """``name`` if it is one of ``names``; otherwise raises the error that names the nearest one."""
    known = sorted(names)
    if name not in known:
        raise fail(file, key, name, f"no {what} of this name; known: {', '.join(known)}", nearest(name, known))
    return name


def read_document(path: str | Path) -> Any:
    """The content of a ``.json``, ``.yaml`` or ``.yml`` file.

    Raises:
        InputError: the file is missing, is no text, or is not well-formed (with line and column).
    """
    return parse_document(text_of(path), Path(path))


def text_of(path: str | Path) -> str:
    """The text of a file in UTF-8, whose lines may end in any usual way, and which may begin with a byte order mark.

    Raises:
        InputError: the file is missing, or is no text (with the line).
    """
    try:
        text = content_of(path).decode("utf-8-sig")
    except OSError as error:
        raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise fail(path, f"line {line}", "", f"is not UTF-8 text (byte {error.start} of the file)") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_document(text: str, path: str | Path) -> Any:
    """``text`` as JSON or, when ``path`` ends in ``.yaml`` or ``.yml``, as YAML. Duplicate keys are refused."""
    if Path(path).suffix in (".yaml", ".yml"):
        try:
            return yaml.load(text, Loader=_UniqueKeyLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise fail(path, where, "", f"is not well-formed YAML: {error.problem}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            reason = "is nested too deeply" if isinstance(error, RecursionError) else shown(str(error))
            raise fail(path, "", "", f"is not well-formed YAML: {reason}") from error

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise fail(path, key, "", "the key stands twice in one object")
        return dict(pairs)

    def refuse_constant(name: str) -> float:
        raise fail(path, "", name, "is not a JSON number; numbers must be finite")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise fail(path, where, "", f"is not well-formed JSON: {error.msg}") from error
    except RecursionError as error:
        raise fail(path, "", "", "is nested too deeply") from error
    except InputError:
        raise
    except ValueError as error:
        raise fail(path, "", "", f"holds a number that cannot be read: {shown(str(error))}") from error


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice (plain YAML silently keeps the last one)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (str, int, float)):
                if key in seen:
                    raise yaml.MarkedYAMLError(problem=f"the key {key} stands twice", problem_mark=key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)


def validate(model: type[Model], document: Any, path: str | Path, strict: bool | None = None) -> Model:
    """``document`` as a ``model``; every violated field becomes one fault that names file, key and rule.

    ``strict``: whether every value must be of its field's own type, so that ``"5"`` is no number; None leaves that to
    the model.
    """
    if not isinstance(document, dict):
        raise fail(path, "", document, "the document must be an object of keys and values")
    try:
        return model.model_validate(document, strict=strict)
    except ValidationError as error:
        raise InputError(_fault(model, item, path) for item in error.errors()) from error


_RULES = {"missing": "the key is missing", "model_type": "must be a mapping of keys to values"}
"""Where pydantic's own text would be about Python."""


def _fault(model: type[BaseModel], item: Any, path: str | Path) -> Fault:
    location = [str(part) for part in item["loc"]]
    key = ".".join(location)
    if item["type"] == "extra_forbidden":
        known = _field_names(model, location[:-1])
        rule = f"unknown key; known: {', '.join(sorted(known))}" if known else "unknown key"
        return Fault(str(path), key, "", rule, nearest(location[-1], known))
    value = "" if item["type"] == "missing" else shown(item["input"])
    rule = _RULES.get(item["type"]) or item["msg"].removeprefix("Value error, ")
    suggestion = None
    if item["type"] == "literal_error":
        choices = [text.strip(" '") for text in item["ctx"]["expected"].replace(" or ", ",").split(",")]
        suggestion = nearest(str(item["input"]), choices)
    return Fault(str(path), key, value, rule[0].lower() + rule[1:], suggestion)


def _field_names(model: type[BaseModel], location: list[str]) -> list[str]:
    """Field names of the (nested) model at ``location``; empty where the annotation is no model."""
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


def is_positive_finite(value: float) -> bool:
    """True for a finite number above zero."""
    return math.isfinite(value) and value > 0

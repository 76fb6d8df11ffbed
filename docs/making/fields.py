"""Keys of file formats, from the classes that read them: ``{{ fields MODULE.CLASS … }}`` in a page.

Each class, a pydantic model or a dataclass, and each class in the types of its keys becomes a table: key, type, default
and meaning. Types and limits are those of the JSON schema, meanings those under "Attributes:" in the docstring.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, TypeAdapter

ENTRY = re.compile(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", re.MULTILINE)
KEYS_OF = re.compile(r"Keys as of `[\w.]+`")
ROLE = re.compile(r":\w+:`~?([\w.]+)`")
SCHEMA = "name and major version of the format"
SOURCED = {"value", "source"}
"""Keys of a constant with its source, which has no table of its own."""

KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "yes or no", "null": "null"}


def fields(*names: str) -> str:
    """The tables of the classes with these dotted names, and of those that they consist of, each once.

    Raises:
        ValueError: a key without a description, or a name that is not a class with keys.
    """
    waiting, tables = [_named(name) for name in names], dict[type, str]()
    while waiting:
        each = waiting.pop(0)
        if each not in tables:
            tables[each] = _table(each)
            waiting[:0] = _inner(each)
    return "\n\n".join(tables.values())


def _named(name: str) -> type:
    module, _, kind = name.rpartition(".")
    found = getattr(importlib.import_module(module), kind, None)
    if not _has_keys(found):
        raise ValueError(f"{name} is not a pydantic model or a dataclass")
    return found


def _has_keys(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))


def _inner(kind: type) -> Iterator[type]:
    """The classes in the types of the keys of ``kind``."""
    waiting = list(get_type_hints(kind, include_extras=True).values())
    keys = kind.model_fields if issubclass(kind, BaseModel) else {}
    waiting = [each.annotation for each in keys.values()] or waiting
    while waiting:
        each = waiting.pop(0)
        if _has_keys(each) and {*get_type_hints(each)} - {"model_config"} != SOURCED:
            yield each
        waiting[:0] = get_args(each)


def _table(kind: type) -> str:
    schema = TypeAdapter(kind).json_schema(by_alias=True)
    text = ROLE.sub(lambda role: f"``{role[1]}``", inspect.getdoc(kind) or "").replace("``", "`")
    summary, _, rest = text.partition("\n\n")
    meanings = {
        name.strip(): " ".join(meaning.split()).removesuffix(".")
        for names, meaning in ENTRY.findall(rest.partition("Attributes:")[2])
        for name in names.split(",")
    }
    if KEYS_OF.search(text):
        return f"**{kind.__name__}**: {summary}"
    keys = kind.model_fields if issubclass(kind, BaseModel) else {}
    aliases = {each.alias: name for name, each in keys.items() if each.alias}
    inner = schema.get("$defs", {})
    rows = dict[tuple[str, ...], list[str]]()  # keys by what else their row has
    for key, of in schema.get("properties", {}).items():
        meaning = SCHEMA if key == "schema" else meanings.get(aliases.get(key, key))
        if meaning is None:
            raise ValueError(f"{kind.__module__}.{kind.__name__}: its docstring does not say what {key} is")
        default = "required" if key in schema.get("required", ()) else _default(of)
        rows.setdefault((_type(of, inner), default, meaning.replace("|", "\\|")), []).append(f"`{key}`")
    lines = [f"| {' | '.join((', '.join(keys), *row))} |" for row, keys in rows.items()]
    head = ["", "| key | type | default | meaning |", "|---|---|---|---|"] if lines else []
    return "\n".join([f"**{kind.__name__}**: {' '.join(summary.split())}", *head, *lines])


def _default(of: Mapping[str, Any]) -> str:
    default = of.get("default")
    return (
        "" if default in (None, "", [], {}) else f"`{str(default).lower() if isinstance(default, bool) else default}`"
    )


def _type(of: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """The type of a key; ``inner`` are the schemas that it refers to by name."""
    if "$ref" in of:
        name = str(of["$ref"]).rpartition("/")[2]
        keys = inner[name].get("properties", {})
        return f"{_type(keys['value'], inner)}, with source" if {*keys} == SOURCED else name
    if "const" in of or "enum" in of:
        return ", ".join(f"`{value}`" for value in of.get("enum", [of.get("const")]))
    if "anyOf" in of or "oneOf" in of:
        kinds = dict.fromkeys(_type(each, inner) for each in of.get("anyOf", of.get("oneOf")))
        return " or ".join(each for each in kinds if each != "null" or "default" not in of)
    if "prefixItems" in of:
        return f"[{', '.join(_type(each, inner) for each in of['prefixItems'])}]"
    if of.get("type") == "array":
        return f"list of {_type(of.get('items', {}), inner)}"
    if of.get("type") == "object":
        values = of.get("additionalProperties")
        return f"{{name: {_type(values, inner)}}}" if isinstance(values, dict) else "object"
    return KINDS.get(of.get("type", ""), "any") + _limits(of)


def _limits(of: Mapping[str, Any]) -> str:
    return "".join(
        f" {sign} {of[key]:g}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
        if key in of and abs(of[key]) < 1e6 and not (key == "minimum" and 0 < of[key] < 1e-6)
    )

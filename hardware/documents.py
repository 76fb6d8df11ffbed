"""Reading what people write: YAML and JSON documents, within limits that every reader can rely on."""

import json
import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from hardware.input_files import content_of
from hardware.inputs import InputError, fail, shown

MAX_FILE_BYTES = 2**29
"""Size of a text file that is read."""

MAX_DEPTH = 100
"""Objects and lists inside one another in a document."""

MAX_VALUES = 20_000_000
"""Values in a document, counted as often as YAML's aliases repeat them."""

_MAX_NUMBER = 10**308

_GZIP = b"\x1f\x8b"
"""How a file begins that gzip has packed."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Control characters, which no text here may hold: neither JSON nor YAML has them, and no line could show them."""


def read_document(path: str | Path) -> Any:
    """The content of a ``.json``, ``.yaml`` or ``.yml`` file, as :func:`parse_document` gives it.

    Raises:
        InputError: the file is missing, is not text, is not well-formed (with line and column), or breaks a limit.
    """
    return parse_document(text_of(path), Path(path))


def text_of(path: str | Path) -> str:
    """The text of a file in UTF-8, whose lines may end in any usual way, and which may begin with a byte order mark.

    The file may be packed by gzip, regardless of its name.

    Raises:
        InputError: the file is missing, is larger than :data:`MAX_FILE_BYTES`, packed or not, is not text, or holds
            control characters (with the line).
    """
    return text_in(unpacked(path), path)


def text_in(content: bytes, path: str | Path) -> str:
    """The text in the content of a file.

    Raises:
        InputError: as :func:`text_of`.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise fail(path, f"line {line}", "", f"is not UTF-8 text (byte {error.start} of the file)") from error
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        raise fail(path, f"line {line}", "", f"text must not contain the character U+{ord(control.group()):04X}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def bytes_of(path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The content of a file.

    Raises:
        InputError: the file is missing, or is larger than ``max_bytes``.
    """
    try:
        content = content_of(path, max_bytes + 1)
    except OSError as error:
        raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a name that no file can have
        raise fail(path, "", "", f"cannot be read: {error}") from error
    if len(content) > max_bytes:
        raise fail(path, "", "", f"is larger than {max_bytes / 2**20:,.0f} MiB, the limit")
    return content


def unpacked(path: str | Path, max_bytes: int | None = None) -> bytes:
    """The content of a file; what it holds where it is packed by gzip.

    Args:
        path: of the file.
        max_bytes: of both; :data:`MAX_FILE_BYTES` for None.

    Raises:
        InputError: as :func:`bytes_of`, or the file is not a whole gzip file, or holds more than that.
    """
    limit = MAX_FILE_BYTES if max_bytes is None else max_bytes
    content = bytes_of(path, limit)
    if not content.startswith(_GZIP):
        return content
    parts: list[bytes] = []
    room = limit + 1
    while content and room > 0:  # a file may consist of several members
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            parts.append(member.decompress(content, room))
        except zlib.error as error:
            raise fail(path, "", "", f"is not a valid gzip file: {error}") from error
        room -= len(parts[-1])
        if not member.eof and room > 0:
            raise fail(path, "", "", "is a truncated gzip file")
        content = member.unused_data
    if room <= 0:
        raise fail(path, "", "", f"contains more than {limit / 2**20:,.0f} MiB when unpacked, the limit")
    return b"".join(parts)


def parse_document(text: str, path: str | Path) -> Any:
    """``text`` as JSON or, when ``path`` ends in ``.yaml`` or ``.yml``, as YAML.

    What comes back consists of dictionaries, lists, text without control characters, finite numbers, booleans and
    None. Keys are text, or whole numbers in YAML. It contains no object twice on one path and is no deeper than
    :data:`MAX_DEPTH`, so that whatever walks it ends.

    Raises:
        InputError: the text is not well-formed, gives a key twice, or breaks one of these rules.
    """
    if text.count(",") > MAX_VALUES:  # which would take minutes, and all memory, to find out
        raise fail(path, "", "", f"contains more than {MAX_VALUES:,} commas, the limit")
    is_yaml = Path(path).suffix in (".yaml", ".yml")
    document = _parse_yaml(text, path) if is_yaml else _parse_json(text, path)
    if is_yaml or not _keeps_rules(document, text):
        _DocumentRules(path).check(document)
    return document


def _parse_json(text: str, path: str | Path) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for key, value in pairs:
            if key in document:
                raise fail(path, key, "", "the key appears twice in one object")
            document[key] = value
        return document

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
        raise fail(path, "", "", f"contains a number that cannot be read: {shown(str(error))}") from error


def _parse_yaml(text: str, path: str | Path) -> Any:
    try:
        return yaml.load(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise fail(path, where, "", f"is not well-formed YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else shown(str(error))
        raise fail(path, "", "", f"is not well-formed YAML: {reason}") from error


_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml reads ten times as fast as Python, where it was built in; its limit of nesting is 1,000 levels.

A type checker cannot follow a base class that is chosen when the program starts.
"""


class _PlainLoader(_FastLoader):  # type: ignore[misc]
    """YAML with the values that JSON has; refuses a key given twice (plain YAML silently keeps the last one).

    A date is text here, and bytes, sets and ordered pairs are refused.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if isinstance(node, yaml.MappingNode):  # a list may be tagged !!map, which the base class refuses
            seen: set[object] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, (str, int, float)):
                    if key in seen:
                        problem = f"the key {shown(key)} appears twice"
                        raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
                    seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _scalar_constructor(construct: Callable[..., Any], what: str) -> Callable[[yaml.SafeLoader, yaml.Node], Any]:
    """``construct`` for a scalar that may be tagged as ``what`` wrongly."""

    def constructed(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            stated = f"{shown(node.value)} " if isinstance(node.value, str) and node.value else ""
            raise yaml.MarkedYAMLError(problem=f"{stated}is no {what}", problem_mark=node.start_mark) from error

    return constructed


def _in_plain_digits(construct: Callable[..., Any]) -> Callable[..., Any]:
    """``construct`` for a number that is written as JSON writes one: YAML 1.1 reads ``1_0`` as 10 and ``010`` as 8."""

    def constructed(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
        text = str(node.value).lstrip("+-")
        if set(text) & set("_:") or (len(text) > 1 and text[0] == "0" and text[1] not in ".eE"):
            raise ValueError(text)
        return construct(loader, node)

    return constructed


_NUMBER_TEXT = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9][0-9_]*)?$")
_NUMBER_BEGINS = "-+.0123456789"

_ON_AND_OFF = "oO"
"""How the booleans of YAML 1.1 begin that are text here, as in YAML 1.2: ``on`` is the name of an option."""


def _restrict(loader: type[_PlainLoader]) -> None:
    """Leave ``loader`` the constructors of JSON's values. Dates, on and off are text; 1e9 is a number, as in JSON."""
    tag = "tag:yaml.org,2002:"
    loader.yaml_constructors = {
        key: constructor
        for key, constructor in loader.yaml_constructors.items()
        if key is None or key.removeprefix(tag) in ("null", "str", "seq", "map")
    }
    constructors = {kind: yaml.SafeLoader.yaml_constructors[tag + kind] for kind in ("bool", "int", "float")}
    loader.add_constructor(tag + "bool", _scalar_constructor(constructors["bool"], "boolean"))
    for kind, number in (("int", "whole number"), ("float", "number")):
        what = f"{number} in plain digits"
        loader.add_constructor(tag + kind, _scalar_constructor(_in_plain_digits(constructors[kind]), what))
    loader.yaml_implicit_resolvers = {
        first: [
            (name, pattern)
            for name, pattern in resolvers
            if name != f"{tag}timestamp" and not (name == f"{tag}bool" and first in _ON_AND_OFF)
        ]
        for first, resolvers in loader.yaml_implicit_resolvers.items()
    }
    # After the patterns of YAML 1.1, for which 1e9, -.5 and 08 are text.
    loader.add_implicit_resolver(f"{tag}float", _NUMBER_TEXT, list(_NUMBER_BEGINS))


_restrict(_PlainLoader)


class _PlainDumper(yaml.SafeDumper):
    """Quotes text that :class:`_PlainLoader` would take for a number."""


_PlainDumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER_TEXT, list(_NUMBER_BEGINS))


def yaml_of(document: Any, **layout: Any) -> str:
    """``document`` as YAML that :func:`parse_document` reads as the same; ``layout`` as of ``yaml.dump``."""
    text: str = yaml.dump(document, Dumper=_PlainDumper, **layout)
    return text


_CONTROL_ESCAPES = ("\\u", "\\b", "\\f")
"""What JSON can write control characters with, of which its text itself has none."""


def _keeps_rules(document: Any, text: str) -> bool:
    """Whether a document of JSON surely keeps the rules of :class:`_DocumentRules`, which takes a fifth of their time.

    It has no aliases, so that each container is met once. ``text``: that it was read from.
    """
    if type(document) not in (dict, list) or any(escape in text for escape in _CONTROL_ESCAPES):
        return False
    level, count = [document], 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        count += len(level)
        for container in level:
            for item in container.values() if type(container) is dict else container if type(container) is list else ():
                kind = type(item)
                if kind is dict or kind is list:
                    below.append(item)
                    continue
                count += 1
                if (kind is float or kind is int) and not -_MAX_NUMBER < item < _MAX_NUMBER:
                    return False
        if not below:
            return count <= MAX_VALUES
        level = below
    return False


_CONTAINERS = (dict, list)


class _DocumentRules:
    """The rules of :func:`parse_document` for values; a place is (the place around it, its key or position)."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._extents: dict[int, tuple[int, int]] = {}
        self._around: set[int] = set()

    def check(self, document: Any) -> None:
        """Raise InputError for the first value that breaks a rule."""
        values, _ = self._extent(document, None, 0)
        if values > MAX_VALUES:
            raise self._fail(None, "", f"contains more than {MAX_VALUES:,} values, the limit")

    def _extent(self, value: Any, place: Any, depth: int) -> tuple[int, int]:
        """The number of values in ``value``, itself included, and its levels.

        Each container is walked once however many aliases it has.
        """
        if not isinstance(value, _CONTAINERS):
            self._check_scalar(value, place)
            return 1, 0
        identity = id(value)
        if identity in self._around:
            raise self._fail(place, "", "the value must not contain itself")
        if identity not in self._extents:
            self._require_shallow(depth + 1)
            self._around.add(identity)
            values, levels = 1, 0
            for key, item in self._items(value, place):
                if isinstance(item, _CONTAINERS):
                    inner_values, inner_levels = self._extent(item, (place, key), depth + 1)
                    values, levels = values + inner_values, max(levels, inner_levels)
                else:
                    values += 1
                    if item is not None and not (isinstance(item, str) and item.isprintable()):
                        self._check_scalar(item, (place, key))
            self._around.discard(identity)
            self._extents[identity] = values, levels + 1
        values, levels = self._extents[identity]
        self._require_shallow(depth + levels)
        return values, levels

    def _require_shallow(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._fail(None, "", f"is nested too deeply; the limit is {MAX_DEPTH} levels")

    def _items(self, container: dict[Any, Any] | list[Any], place: Any) -> Iterable[tuple[Any, Any]]:
        """The keys or positions and the values in ``container``, whose keys are checked."""
        if isinstance(container, list):
            return enumerate(container)
        for key in container:
            if isinstance(key, str) and key.isprintable():
                continue
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise self._fail(place, shown(key), "a key must be text")
            self._check_scalar(key, place)
        return container.items()

    def _check_scalar(self, value: Any, place: Any) -> None:
        if isinstance(value, str):
            if not value.isprintable():
                self._check_text(value, place)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise self._fail(place, str(value), "numbers must be finite")
        elif isinstance(value, int) and not -_MAX_NUMBER < value < _MAX_NUMBER:
            raise self._fail(place, "", "a number must be below 1e308 in magnitude")

    def _check_text(self, text: str, place: Any) -> None:
        for character in text:
            if character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cs"):
                rule = f"text must not contain the character U+{ord(character):04X}"
                raise self._fail(place, shown(text), rule)

    def _fail(self, place: Any, value: str, rule: str) -> InputError:
        keys: list[str] = []
        while place is not None:
            place, key = place
            keys.append(shown(key))
        return fail(self._path, ".".join(reversed(keys)), value, rule)

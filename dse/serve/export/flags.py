"""What launchers take, as data (``flags/*.yaml``): command-line flags, and keys of files by their dotted path.

``*`` in a path stands for any name or place in a list. Every export is read back by these before it is written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from dse.serve.export.expressible import ENVIRONMENT
from hardware.documents import read_document
from hardware.inputs import fail, nearest, validate
from hardware.spec_fields import Source, StrictModel

FLAGS = ("dse.serve", "flags")


class Rule(StrictModel):
    """What a flag or key takes.

    Attributes:
        takes: its kind; ``share`` is a number from 0 to 1, ``nothing`` a flag alone.
        values: those of ``choice``; the keys of ``json``.
    """

    takes: Literal["count", "share", "text", "choice", "json", "nothing", "yes or no"]
    values: tuple[str, ...] = ()

    def fault(self, value: object) -> str | None:
        """The rule that a value breaks."""
        if isinstance(value, str) and value.startswith(ENVIRONMENT):
            return None
        if self.takes == "count":
            return None if _is_count(value) else "must be a whole number of at least 0"
        if self.takes == "share":
            return None if _is_share(value) else "must be a number above 0 and at most 1"
        if self.takes == "choice":
            return None if value in self.values else f"must be one of {', '.join(self.values)}"
        if self.takes == "json":
            keys = set(json.loads(str(value)))
            return None if keys <= {*self.values} else f"must have keys of {', '.join(self.values)}"
        if self.takes == "yes or no":
            return None if isinstance(value, bool) else "must be true or false"
        return None if isinstance(value, str) and value else "must be text"


class Launcher(StrictModel):
    """A command, and what it and its files take.

    Attributes:
        name: of the launcher.
        command: its first words.
        version: of the software that the rules are of.
        source: of the rules.
        flags: by name.
        settings: by dotted path, of its file.
    """

    name: str
    command: tuple[str, ...]
    version: str
    source: Source
    flags: dict[str, Rule]
    settings: dict[str, Rule] = Field(default_factory=dict)

    def read(self, arguments: Sequence[str]) -> dict[str, str]:
        """The flags of a command line, without its command, by name; a word in front of them is ``model``.

        Raises:
            InputError: a flag that the launcher does not have, or a value that it does not take.
        """
        values: dict[str, str] = {}
        words = [*arguments, "-"]
        if words[0] != "-" and not words[0].startswith("-"):
            values["model"] = words.pop(0)
        is_value = False
        for word, following in pairwise(words):
            if is_value:
                is_value = False
                continue
            rule = self.flags.get(word)
            if rule is None:
                raise fail(self.name, word, "", "must be a flag of the launcher", nearest(word, self.flags))
            is_value = rule.takes != "nothing"
            values[word] = following if is_value else ""
            broken = rule.fault(following) if is_value else None
            if broken:
                raise fail(self.name, word, following, broken)
        return values

    def check(self, document: Mapping[str, Any]) -> None:
        """Whether a file has keys and values that the launcher takes.

        Raises:
            InputError: it does not.
        """
        for path, value in leaves(document):
            rule = next((rule for known, rule in self.settings.items() if _matches(known.split("."), path)), None)
            key = ".".join(path)
            if rule is None:
                raise fail(self.name, key, "", "must be a setting of the launcher", nearest(key, self.settings))
            broken = rule.fault(value)
            if broken:
                raise fail(self.name, key, value, broken)


def list_launchers() -> list[str]:
    """Names of all."""
    folder = resources.files(FLAGS[0]) / FLAGS[1]
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


def launcher(name: str) -> Launcher:
    """The one of this name."""
    path = str(resources.files(FLAGS[0]) / FLAGS[1] / f"{name}.yaml")
    return validate(Launcher, read_document(path), path)


def leaves(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, value) of every value in a document."""
    items = document.items() if isinstance(document, Mapping) else enumerate(document)
    for key, value in items:
        if isinstance(value, Mapping | list):
            yield from leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _matches(known: Sequence[str], path: Sequence[str]) -> bool:
    return len(known) == len(path) and all(one in ("*", other) for one, other in zip(known, path, strict=True))


def _is_count(value: object) -> bool:
    return not isinstance(value, bool) and str(value).isdecimal()


def _is_share(value: object) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(str(value)) <= 1
    except ValueError:
        return False

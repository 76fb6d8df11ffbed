"""Types of solutions and metrics for users: ``dse/results/documents.py``, from the models that check results.

Where a problem has results of several forms, its type has the keys of all; those that not every form has are
``NotRequired``.
"""

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, RootModel

from docs.making.fields import ENTRY, ROLE
from dse.problem import Registered, registered

HEAD = '''"""Types of ``solution`` and ``metrics``, by ``python -m docs.making.stubs`` from the models of results.

A result is plain data: an answer's ``solution`` is a dictionary with the keys of the type of its problem. Where nothing
was found both are empty. A key that is not required stands in results of some forms alone.
"""

from typing import Any, Literal, NotRequired, TypedDict
'''

_WIDTH = 120


@dataclass
class _Writer:
    """Classes as they are written.

    Attributes:
        prefixes: of names, by package.
        tops: names that the types of whole solutions and metrics have.
        names: of models, once they have one.
        texts: of classes, by name.
    """

    prefixes: Mapping[str, str]
    tops: Sequence[str]
    names: dict[type, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def top(self, name: str, forms: Sequence[type[BaseModel]]) -> None:
        """The class of all ``forms`` together."""
        keys: dict[str, list[tuple[str, bool]]] = {}
        meanings: dict[str, str] = {}
        for form in forms:
            for key, kind, required in _keys(form):
                keys.setdefault(key, []).append((self.text(kind), required))
            meanings = _meanings(form) | meanings
        lines = []
        for key, each in keys.items():
            kind = " | ".join(dict.fromkeys(text for text, _ in each))
            always = len(each) == len(forms) and all(required for _, required in each)
            lines.append(f"    {key}: {kind if always else f'NotRequired[{kind}]'}")
        self.texts[name] = "\n".join([f"class {name}(TypedDict):", _docstring(_summary(forms), meanings, keys), *lines])

    def name_of(self, kind: type[BaseModel]) -> str:
        """The name of a model's class, which is written where it is not yet."""
        if kind not in self.names:
            words = kind.__module__.split(".")
            prefix, own = self.prefixes[words[1]], kind.__name__.removesuffix("Document").lstrip("_")
            name = own if own.startswith(prefix) else prefix + own
            if name in self.names.values():
                name = f"{prefix}{words[2].title()}{own}"
            if name in self.tops:
                name = f"{name}Form"
            self.names[kind] = name
            self.top(name, [kind])
        return self.names[kind]

    def text(self, kind: Any) -> str:
        """The type of a key."""
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.text(inner[0])
        if origin in (Union, UnionType):
            parts = dict.fromkeys(self.text(each) for each in inner if each is not NoneType)
            return " | ".join([*parts, *(["None"] if NoneType in inner else [])])
        if origin is Literal:
            return f"Literal[{', '.join(map(repr, inner))}]".replace("'", '"')
        if origin in (list, tuple):
            items = dict.fromkeys(self.text(each) for each in inner if each is not ...)
            return f"list[{' | '.join(items)}]"
        if origin in (dict, Mapping) or getattr(origin, "__name__", "") == "Mapping":
            return f"dict[str, {self.text(inner[1])}]"
        if isinstance(kind, type) and issubclass(kind, RootModel):
            return " | ".join(map(self.name_of, _forms(kind)))
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self.name_of(kind)
        return kind.__name__ if kind in (int, float, bool, str) else "Any"


def _forms(kind: Any) -> Iterator[type[BaseModel]]:
    """The models without alternatives that ``kind`` stands for."""
    if get_origin(kind) in (Annotated, Union, UnionType):
        for each in get_args(kind)[: 1 if get_origin(kind) is Annotated else None]:
            yield from _forms(each)
    elif isinstance(kind, type) and issubclass(kind, RootModel):
        yield from _forms(kind.model_fields["root"].annotation)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind


def _keys(kind: type[BaseModel]) -> Iterator[tuple[str, Any, bool]]:
    for name, each in kind.model_fields.items():
        yield each.alias or name, each.annotation, each.is_required()


def _doc(kind: type) -> str:
    return ROLE.sub(lambda role: f"``{role[1].rpartition('.')[2]}``", inspect.getdoc(kind) or "")


def _meanings(kind: type) -> dict[str, str]:
    return {
        name.strip(): " ".join(meaning.split())
        for names, meaning in ENTRY.findall(_doc(kind).partition("Attributes:")[2])
        for name in names.split(",")
    }


def _summary(forms: Sequence[type]) -> str:
    return " ".join(dict.fromkeys(" ".join(_doc(form).partition("\n\n")[0].split()) for form in forms))


def _docstring(summary: str, meanings: Mapping[str, str], keys: Mapping[str, Any]) -> str:
    def wrapped(text: str, indent: int, more: int) -> str:
        return textwrap.fill(text, _WIDTH - 4, initial_indent=" " * indent, subsequent_indent=" " * more)

    lines = [wrapped(f'"""{summary}', 4, 4)]
    stated = [wrapped(f"{key}: {meanings[key]}", 8, 12) for key in keys if key in meanings]
    return "\n".join([*lines, *(["", "    Attributes:", *stated] if stated else []), '    """', ""])


def types_of(problem: Registered) -> tuple[str, str]:
    """The names of the types of a problem's solutions and metrics."""
    name = problem.name.title().replace("-", "")
    return f"{name}Solution", f"{name}Metrics"


def documents() -> str:
    """The whole file."""
    tops = [name for each in registered().values() for name in types_of(each)]
    writer = _Writer({each.package.rpartition(".")[2]: types_of(each)[0][:-8] for each in registered().values()}, tops)
    for each in registered().values():
        problem = each.load()
        given = [pair for pair in ((problem.Solution, problem.Metrics), *problem.forms) if pair[0] is not None]
        for name, models in zip(types_of(each), zip(*given, strict=True), strict=True):
            writer.top(name, [form for model in models for form in _forms(model)])
    return "\n\n\n".join([HEAD.rstrip(), *writer.texts.values()]) + "\n"

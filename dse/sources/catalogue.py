"""The catalogue: 87 networks without attention, split for learning, and transformers to partition then.

The paper trains on 66 graphs, chooses a checkpoint on 5 and reports 16 (section 5.1). ``split.yaml`` states which are
which. It was drawn once, family by family, before any search result was seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Protocol

from dse.graph.trace import Granularity, Trace
from dse.importer.cache import cached, keep
from dse.importer.canonical import canonical
from dse.run.cache import source_digest
from dse.sources import zoo
from dse.sources.zoo import (
    detection,
    inception,
    mobile,
    pictures,
    plain,
    residual,
    series,
    tables,
    transformers,
    transformers_classes,
)
from hardware.documents import parse_document
from hardware.inputs import choose

SIZES: Mapping[str, int] = {"training": 66, "validation": 5, "test": 16}
"""Graphs of each part of the split."""


class Source(Protocol):
    """What makes a graph of the catalogue."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def family(self) -> str:
        """What it is one of."""
        ...

    def trace(self) -> Trace:
        """Its inference forward pass over one sample."""
        ...


@dataclass(frozen=True)
class Entry:
    """One graph of the catalogue.

    Attributes:
        source: what makes it.
        split: ``training``, ``validation`` or ``test``; empty outside the 87.
        granularity: what one operator is: a framework's where there is no attention, the paper's otherwise.
    """

    source: Source
    split: str
    granularity: Granularity

    @property
    def name(self) -> str:
        """What it is called."""
        return self.source.name

    @property
    def family(self) -> str:
        """What it is one of."""
        return self.source.family

    def trace(self) -> Trace:
        """The canonical trace, made on the first call and then read from the user's cache.

        Raises:
            InputError: a library that it needs is not installed.
        """
        request = {"catalogue": self.name, "definitions": source_digest(zoo)}
        stored = cached(request)
        if stored is not None:
            return stored
        trace = canonical(self.source.trace())
        keep(request, (), trace)
        return trace


@cache
def entries() -> Mapping[str, Entry]:
    """The catalogue by name, the 87 graphs of the split first."""
    where = {name: part for part, names_ in split().items() for name in names_}
    operators = {
        source.name: Entry(source, where[source.name], "operator")
        for source in sorted(_without_attention(), key=lambda source: (source.family, source.name))
    }
    return operators | {source.name: Entry(source, "", "primitive") for source in transformers.MODELS}


def names() -> list[str]:
    """Names of all graphs of the catalogue."""
    return list(entries())


def entry(name: str) -> Entry:
    """The graph called ``name``.

    Raises:
        InputError: there is none of this name (the nearest one is offered).
    """
    return entries()[choose("", "graph", name, names(), "graph of the catalogue")]


def split() -> Mapping[str, tuple[str, ...]]:
    """The names in each part of the split, as ``split.yaml`` states them."""
    file = resources.files("dse.sources").joinpath("split.yaml")
    document = parse_document(file.read_text(encoding="utf-8"), "split.yaml")
    return {part: tuple(document[part]) for part in SIZES}


def families() -> Mapping[str, str]:
    """The family of each graph without attention."""
    return {source.name: source.family for source in _without_attention()}


def _without_attention() -> Iterable[Source]:
    modules = (detection, inception, mobile, pictures, plain, residual, series, tables, transformers_classes)
    return (source for module in modules for source in module.MODELS)

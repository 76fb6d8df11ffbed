"""What the paper prints, as data."""

from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field

from hardware.documents import read_document
from hardware.inputs import validate
from hardware.spec_fields import Positive, PositiveInteger, Source, StrictModel

Denied = Literal["full", "edges", "nodes"]
"""Rows of Table III: the whole model, and what is taken from it."""


class PublishedAccuracy(StrictModel):
    """Mean relative error (RE) and Spearman's rank correlation."""

    error: Positive
    correlation: Annotated[float, Field(ge=-1, le=1)]


class PublishedModel(StrictModel):
    """A whole model at two versions of the compiler: RE of the learned cost, and throughput gained with it."""

    error: dict[Literal["past", "present"], Positive]
    throughput_gain: dict[Literal["past", "present"], Positive]


class Sources(StrictModel):
    """Where it stands."""

    tables: Source
    text: Source


class FabricPaper(StrictModel):
    """All that is printed.

    Attributes:
        accuracy: Table I, by the kind of cost model.
        models: Table II.
        ablation: Table III, by kind of block.
        latency_change: of placements by the learned cost against those by the heuristic one, by kind of block.
        samples: that were collected.
    """

    schema_: Literal["dse.fabric-paper/1"] = Field(alias="schema")
    name: str
    citation: str
    sources: Sources
    accuracy: dict[Literal["heuristic", "learned"], PublishedAccuracy]
    models: dict[Literal["bert", "gpt"], PublishedModel]
    ablation: dict[str, dict[Denied, PublishedAccuracy]]
    latency_change: dict[str, float]
    samples: PositiveInteger


@cache
def read_published() -> FabricPaper:
    """The published numbers."""
    with resources.as_file(resources.files("dse.reproduce").joinpath("rdu", "published.yaml")) as path:
        return validate(FabricPaper, read_document(path), path)

"""What the wafer placement paper prints, as data, and which problem of ours is which of its cases."""

import math
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from dse.results.result import PROOF_TOLERANCE, digest, document_of
from dse.wafer.networks import NETWORKS
from dse.wafer.options import WaferOptions
from dse.wafer.problem import WaferProblem, Weights
from hardware.documents import read_document
from hardware.inputs import validate
from hardware.spec_fields import NonNegative, Positive, PositiveInteger, Source, StrictModel

Percent = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


class Figures(NamedTuple):
    """One placer's row: the parts of the cost, the cost, and what it took."""

    time: Positive
    distance: NonNegative
    adapter: Annotated[int, Field(ge=0)]
    total: Positive
    seconds: Positive


class PublishedWeights(NamedTuple):
    """Of the cost."""

    time: NonNegative
    distance: NonNegative
    adapter: NonNegative


class PublishedCase(StrictModel):
    """A case of Table 1: a network of the contest (:mod:`dse.wafer.networks`) with weights, and two placers' rows."""

    network: str
    kernels: PositiveInteger
    weights: PublishedWeights
    winner: Figures
    gigaplacer: Figures

    @model_validator(mode="after")
    def _totals_are_sums(self) -> "PublishedCase":
        if self.network not in NETWORKS:
            raise ValueError(f"{self.network}: must be a network of the contest")
        for row in (self.winner, self.gigaplacer):
            total = sum(weight * part for weight, part in zip(self.weights, row, strict=False))
            if not math.isclose(total, row.total, rel_tol=PROOF_TOLERANCE):
                raise ValueError(f"total {row.total:g} must be the weighted sum {total:g}")
        return self

    def problem(self, name: str) -> WaferProblem:
        """The problem of this case."""
        time, distance, adapter = self.weights
        options = WaferOptions(self.network, wdeltat=time, wlength=distance, wadapter=adapter)
        made = options.problem()
        return WaferProblem(name, made.wafer, made.weights, made.kernels, made.edges)


class Figure8(StrictModel):
    """What the reordering refinement does to the distance of one case."""

    case: str
    distance_percent: Percent


class Refinement(StrictModel):
    """What the two refinements do on average."""

    distance_percent: Percent
    adapter_percent: Percent


class AnnealingBaseline(StrictModel):
    """Annealing of slicing trees over GigaPlacer, "even in the best case"."""

    cost_ratio: Positive
    time_ratio: Positive


class Sources(StrictModel):
    """Where it stands."""

    table_1: Source
    text: Source


class PlacementPaper(StrictModel):
    """All that is printed, by case in the paper's order."""

    schema_: Literal["dse.placement-paper/1"] = Field(alias="schema")
    name: str
    citation: str
    sources: Sources
    figure_7: tuple[str, ...]
    figure_8: Figure8
    refinement: Refinement
    annealing: AnnealingBaseline
    cases: dict[str, PublishedCase]

    @model_validator(mode="after")
    def _figures_show_cases(self) -> "PlacementPaper":
        unknown = {*self.figure_7, self.figure_8.case} - {*self.cases}
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: must be a known case")
        return self

    def case_of(self, problem: WaferProblem) -> str | None:
        """Which case ``problem`` is, regardless of the name: the same wafer, weights, kernels and edges, in order."""
        wanted = _content(problem)
        return next((name for name, each in self.cases.items() if wanted == _content_of(each)), None)


def _content(problem: WaferProblem) -> str:
    """A digest of the problem without names."""
    kernels = [(kernel.kind, sorted(kernel.values)) for kernel in problem.kernels]
    weights: Weights = problem.weights
    content: Any = document_of((problem.wafer, weights, kernels, problem.edges))
    return digest(content)


@cache
def _content_of(case: PublishedCase) -> str:
    return _content(case.problem(case.network))


@cache
def read_published() -> PlacementPaper:
    """The published numbers."""
    with resources.as_file(resources.files("dse.reproduce").joinpath("gigaplacer", "published.yaml")) as path:
        return validate(PlacementPaper, read_document(path), path)

"""What the paper prints, as data."""

from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hardware.documents import read_document
from hardware.inputs import validate
from hardware.spec_fields import Positive, PositiveInteger, Source, StrictModel

FamilyName = Literal["T5", "VGG"]

WHOLE = -1
"""In Tables 3 and 4: the variable is whole on every device."""

Dimension = Annotated[int, Field(ge=WHOLE, le=3)]


class Counts(StrictModel):
    """A row of Table 5: dimensions that were to be split, that were, and the time that both stages took."""

    target: PositiveInteger
    found: PositiveInteger
    seconds: Positive


class Variables(StrictModel):
    """How many variables a model has, and how many dimensions they have together."""

    count: PositiveInteger
    dimensions: PositiveInteger


class DataParallel(StrictModel):
    """A row of Table 6: inputs that might be split, those that were, and the time."""

    candidates: PositiveInteger
    split: PositiveInteger
    seconds: Positive


class PublishedModel(StrictModel):
    """What is printed of one model."""

    counts: Counts
    variables: Variables | None = None
    data_parallel: DataParallel | None = None


class Sources(StrictModel):
    """Where it stands."""

    tables: Source
    text: Source


Configuration = Literal["A", "B", "C"]
"""Of servers (Table 2)."""


class PublishedPipeline(StrictModel):
    """A row of Table 7: the layers near the cuts, the device before each, and the time to plan."""

    layers: tuple[str, ...]
    devices: tuple[PositiveInteger, ...]
    seconds: Positive


class Inference(StrictModel):
    """Table 8: the same boundaries for all models."""

    models: tuple[str, ...]
    points: PositiveInteger
    boundaries: tuple[PositiveInteger, ...]
    devices: tuple[PositiveInteger, ...]


class PipelineSources(StrictModel):
    """Where it stands."""

    setup: Source
    tables: Source


class PublishedPipelines(StrictModel):
    """What is printed of pipelines.

    Attributes:
        batch, microbatch: in samples.
        servers: of each configuration; each stage has one.
        training: rows of Table 7, by model and configuration.
        inference: Table 8.
    """

    sources: PipelineSources
    batch: PositiveInteger
    microbatch: PositiveInteger
    servers: dict[Configuration, PositiveInteger]
    training: dict[str, dict[Configuration, PublishedPipeline]]
    inference: Inference

    def row(self, model: str, configuration: Configuration) -> PublishedPipeline | None:
        """A row of Table 7; None where a model did not fit (T5-11B), or is not in it (VGG-19)."""
        return self.training.get(model, {}).get(configuration)


class PublishedClaims(StrictModel):
    """What the text says.

    Attributes:
        space_bits: binary logarithm of the number of operator plans, by model.
        min_devices: that the variables of a model need at least.
        cut_between_servers: models whose pipelines are all cut between servers.
    """

    source: Source
    space_bits: dict[str, PositiveInteger]
    min_devices: dict[str, PositiveInteger]
    cut_between_servers: tuple[str, ...]


class PlanPaper(StrictModel):
    """All that is printed.

    Attributes:
        tables: of each family the dimension that is split, by variable.
        uncounted: variables of ``tables`` that Table 5 does not count.
        parameters: of Table 1.
        models: by the paper's names.
        pipelines: Tables 7 and 8.
        claims: of the text of section 5.2.
    """

    schema_: Literal["dse.parallel-paper/1"] = Field(alias="schema")
    name: str
    citation: str
    sources: Sources
    tables: dict[FamilyName, dict[str, Dimension]]
    uncounted: dict[FamilyName, tuple[str, ...]]
    parameters: dict[str, Positive]
    models: dict[str, PublishedModel]
    pipelines: PublishedPipelines
    claims: PublishedClaims

    @model_validator(mode="after")
    def _uncounted_are_variables(self) -> "PlanPaper":
        for family, names in self.uncounted.items():
            unknown = {*names} - {*self.tables[family]}
            if unknown:
                raise ValueError(f"{', '.join(sorted(unknown))}: must be variables of {family}")
        return self

    def plan(self, family: FamilyName) -> dict[str, int]:
        """The variables that are counted, and the dimension of each that is split."""
        left_out = self.uncounted.get(family, ())
        return {name: dim for name, dim in self.tables[family].items() if name not in left_out}


@cache
def read_published() -> PlanPaper:
    """The published numbers."""
    with resources.as_file(resources.files("dse.reproduce").joinpath("automap", "published.yaml")) as path:
        return validate(PlanPaper, read_document(path), path)

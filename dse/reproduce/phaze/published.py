"""What the paper prints, as data: ``published.yaml`` of schema ``dse.paper/1``, each block with its table or figure."""

from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dse.sources.workloads import list_models
from hardware.documents import read_document
from hardware.inputs import validate
from hardware.spec_fields import NonNegative, Positive, PositiveInteger, Source, StrictModel

Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Placement(StrictModel):
    """{p, d, t}: pipeline depth, data-parallel and tensor-parallel width."""

    pipeline: PositiveInteger
    data: PositiveInteger
    tensor: PositiveInteger


class Cores(StrictModel):
    """{num_tc, num_vc, PE_x, PE_y, PE_vc}."""

    tensor_cores: PositiveInteger
    vector_cores: PositiveInteger
    width: PositiveInteger
    depth: PositiveInteger
    lanes: PositiveInteger


class Architecture(Cores):
    """Cores and on-chip memory; the L2 memories are those of one core."""

    global_buffer_mb: PositiveInteger
    global_buffer_words_per_cycle: PositiveInteger
    tensor_l2_mb: Positive
    vector_l2_mb: Positive


class Table2(StrictModel):
    """The paper's results for one model, and Spotlight's accelerator for it."""

    spotlight: Architecture
    accelerator: Architecture
    placement: Placement
    microbatch: PositiveInteger
    recompute: bool
    hbm_gb: PositiveInteger


class Table4(StrictModel):
    """The size of a model, and its expert placement."""

    layers: PositiveInteger
    operators: PositiveInteger
    parameter_mb: Positive
    activation_mb: Positive
    tensor_flops: Positive
    vector_flops: Positive
    expert: Placement


class Table5(StrictModel):
    """Model FLOPs utilisation in per cent."""

    tpuv4_expert: Percent
    tpuv4_solver: Percent
    common: Percent


class PublishedModel(StrictModel):
    """One model's rows; ``label`` is its name in the paper."""

    label: str
    table_2: Table2
    table_4: Table4 | None = None
    table_5: Table5 | None = None


class Setup(StrictModel):
    """The job of the evaluation, as options of the co-search."""

    accelerators: PositiveInteger
    global_batch: PositiveInteger
    microbatch: str
    hbm_gb: str
    source: Source


class Common(StrictModel):
    """The one architecture for all models."""

    source: Source
    accelerator: Architecture
    hbm_gb: PositiveInteger


class Speedups(StrictModel):
    """Geometric means of throughput ratios."""

    source: Source
    per_model_over_expert: Positive
    common_over_expert: Positive
    common_over_tpuv4_solver: Positive
    common_over_spotlight_solver: Positive


class SearchTime(StrictModel):
    """Where a search's time goes."""

    source: Source
    hysteresis: PositiveInteger
    estimation_percent: Percent
    scheduling_percent_gpt3: Percent
    statement: str


class Table3(StrictModel):
    """The kind of core that runs each operator."""

    source: Source
    cores: dict[str, Literal["tensor", "vector"]]


class Convergence(StrictModel):
    """What the hysteresis level does to time and answer."""

    source: Source
    levels: tuple[PositiveInteger, ...]
    model: str
    microbatch: str
    hbm_gb: str
    faster_than_level_8: dict[int, Positive]
    tpuv4_up_to_level: PositiveInteger
    optimal_from_level: PositiveInteger
    largest_areas_percent: NonNegative
    converged: Cores


class Sources(StrictModel):
    """Where the paper has the models' blocks."""

    table_2: Source
    table_4: Source
    table_5: Source


class PublishedPaper(StrictModel):
    """All that is printed, by model in the paper's order."""

    schema_: Literal["dse.paper/1"] = Field(alias="schema")
    name: str
    citation: str
    setup: Setup
    sources: Sources
    common: Common
    speedups: Speedups
    search_time: SearchTime
    convergence: Convergence
    table_3: Table3
    models: dict[str, PublishedModel]

    @model_validator(mode="after")
    def _models_are_built_in(self) -> "PublishedPaper":
        unknown = {*self.models, self.convergence.model} - set(list_models())
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: must be a built-in model")
        return self


@cache
def read_published() -> PublishedPaper:
    """The published numbers."""
    with resources.as_file(resources.files("dse.reproduce").joinpath("phaze", "published.yaml")) as path:
        return validate(PublishedPaper, read_document(path), path)

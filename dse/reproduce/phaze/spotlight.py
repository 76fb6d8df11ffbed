"""Spotlight's accelerators of Table 2, and what they lose under our prices: by shape of the array, by vector lanes.

Spotlight (Sakhuja et al., HPCA 2023) proposes one tensor core and one vector core for every model. The specs are
``spotlight-MODEL`` in ``hardware/specs/chips``; a changed machine has another array or other vector cores.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dse.codesign.evaluation.evaluator import Evaluator
from dse.reproduce.phaze.baselines import on_papers_common, spec_name
from dse.reproduce.phaze.context import MAPPED, TRACED, Context
from dse.reproduce.phaze.published import Cores
from dse.reproduce.section import Comparison, Row, Table, geometric_mean, ratio, times
from hardware.machines import Machines
from hardware.specs import accelerator

AS_PRINTED, SQUARE, LANES, BOTH = "as printed", "square array", "lanes as in the paper's common machine", "both"

SHAPE_AND_LANES = "shape and lanes of Spotlight's machines; see the last tables of this part"
"""Why our mean over Spotlight is not the paper's."""

_TRACED_ONES = "ours covers the models with traced layers on the paper's machines"

MAPPER_HEADERS = (
    "layers and cycles",
    "the paper's common machine relative to Spotlight's",
    "geometric mean",
    "least",
    "most",
)

HEADERS = ("cost model", "our common machine relative to Spotlight's", "geometric mean", "least", "most")

NOTES = (
    "Why the mean relative to Spotlight differs from the paper's 2.0: shape and lanes of Spotlight's machines. “Square "
    "array” has as many elements as the printed array, “lanes” the vector cores of the paper's common machine.",
    "Shape: under phaze-2024 all cores together receive 64 words per cycle, and an 8192 × 2 array does at most 8 "
    "products per streamed word (128 × 128: 170), so its 16,384 elements do 512 per cycle. The paper's mapper "
    "(Sunstone) maps several dimensions of a product to one side of the array, so such an array is as good as a square "
    "one; here, one dimension is mapped to each side. The last table shows cycles with that mapper for all machines, "
    "with layers as the published tool traces them.",
    "Lanes: one vector core with 64 or 16 lanes has at most a quarter of the throughput of the 2 × 128 lanes of the "
    "paper's TPUv4. The paper does not print values for single models, so neither cause can be checked per model.",
)


def causes(context: Context, common: dict[tuple[str, str], float | None]) -> tuple[Table, list[Comparison]]:
    """Our common machine over Spotlight's, as printed and changed.

    ``common`` has the samples/s of our common machine by model and cost model.
    """
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    paper = context.paper.speedups.common_over_spotlight_solver
    for cost_model in context.cost_models:
        per_s = {model: dict(_variants_per_s(context, model, cost_model)) for model in context.models}
        for variant in (AS_PRINTED, SQUARE, LANES, BOTH):
            known = [ratio(common[model, cost_model], per_s[model][variant]) for model in context.models]
            values = [value for value in known if value is not None]
            mean = geometric_mean(values)
            rows.append((cost_model, variant, times(mean), *(times(f(values, default=None)) for f in (min, max))))
            reason = context.unlike_all_models if variant == AS_PRINTED else "the machines are modified"
            quantity = f"common / Spotlight, {variant}"
            comparisons.append(
                Comparison("geometric mean", cost_model, quantity, "", mean, paper, reason, SHAPE_AND_LANES)
            )
    return Table(HEADERS, tuple(rows)), comparisons


def with_mapper(context: Context) -> tuple[Table | None, list[Comparison]]:
    """The paper's common machine over Spotlight's, by our cycles and by those of the paper's mapper; None if untraced.

    Layers are those that the published tool traces, of all models that have them.
    """
    models = [model for model in context.models if TRACED in context.ways(model)]
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for way, variant in ((TRACED, AS_PRINTED), (MAPPED, AS_PRINTED), (MAPPED, LANES)) if models else ():
        known = []
        for model in models:
            per_s = dict(_variants_per_s(context, model, way, (variant,)))[variant]
            over = ratio(on_papers_common(context, model, way)[0], per_s)
            known += [] if over is None else [over]
        mean = geometric_mean(known)
        rows.append((way, variant, times(mean), *(times(f(known, default=None)) for f in (min, max))))
        paper = context.paper.speedups.common_over_spotlight_solver
        quantity = f"the paper's common machine / Spotlight, {variant}"
        comparisons.append(Comparison("geometric mean", way, quantity, "", mean, paper, _TRACED_ONES))
    return (Table(MAPPER_HEADERS, tuple(rows)) if rows else None), comparisons


def _variants_per_s(
    context: Context, model: str, cost_model: str, chosen: Sequence[str] = (AS_PRINTED, SQUARE, LANES, BOTH)
) -> Iterator[tuple[str, float | None]]:
    """Samples/s of ``chosen`` variants of Spotlight's machine, placed by us; None where no plan fits any HBM size."""
    (job,) = context.options((model,), cost_model).problem().jobs
    machine = accelerator(spec_name(model), job.cost_model).machines
    lanes = context.paper.common.accelerator
    square = _square(machine)
    variants = {
        AS_PRINTED: machine,
        SQUARE: square,
        LANES: _with_lanes(machine, lanes),
        BOTH: _with_lanes(square, lanes),
    }
    for variant in chosen:
        plans = Evaluator(job, variants[variant], pricing=context.pricing(cost_model)).evaluate(0).plans
        per_s = [plan.throughput_per_s(job.global_batch) for plan in plans if plan is not None]
        yield variant, max(per_s, default=None)


def _with_lanes(machine: Machines, cores: Cores) -> Machines:
    """The machine with the vector cores of ``cores``."""
    return replace(machine, vector_cores=np.array([cores.vector_cores]), vector_lanes=np.array([cores.lanes]))


def _square(machine: Machines) -> Machines:
    """The machine with an array of as many elements whose sides are as equal as powers of two can be."""
    elements = int(machine.core_width[0] * machine.core_depth[0])
    width = 1 << round(math.log2(elements) / 2)
    return replace(machine, core_width=np.array([width]), core_depth=np.array([elements // width]))

"""How sure a prediction is: 90 % intervals of TTFT and TPOT, from published runs that no constant was fitted to.

For each engine, ``intervals.yaml`` (written by ``python -m benchmarks.serving --intervals``) has the sizes of the
logarithm of measured over predicted, of means over requests by events: of models with runs that the engine's constants
were fitted to, and of others. Of n that are as near, the k-th smallest, k = ⌈0.9 (n + 1)⌉, is the half-width (split
conformal prediction; Lei et al., Distribution-Free Predictive Inference for Regression, 2018, section 2). Of a chip
that no run of the engine is of there is no interval.
"""

import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import Field

from dse.plan.intervals import MIN_ROWS, Interval, quantile
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan, SplitPlan
from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import validate
from hardware.spec_fields import StrictModel

FILE = "intervals.yaml"

METHOD = "split conformal, log error"


Sizes = tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...]


class Errors(StrictModel):
    """Sizes of log errors, ascending.

    Attributes:
        tpot, ttft: of means over requests; TTFT of runs whose arrivals are known.
    """

    tpot: Sizes
    ttft: Sizes


class StackErrors(StrictModel):
    """Of one engine.

    Attributes:
        chips: that runs are of.
        models: that its constants were fitted to runs of.
        known: of these models.
        other: of other models.
    """

    chips: tuple[str, ...]
    models: tuple[str, ...]
    known: Errors
    other: Errors


class ServingIntervals(StrictModel):
    """The content of ``intervals.yaml``: errors by engine."""

    engines: dict[str, StackErrors]


@cache
def intervals() -> ServingIntervals:
    """What is known of errors."""
    with noting(), resources.as_file(resources.files("dse.serve").joinpath(FILE)) as path:
        return validate(ServingIntervals, read_document(path), FILE)


def interval(problem: ServeProblem, engine: str, metric: str) -> Interval:
    """Of the mean ``tpot`` or ``ttft`` with an engine, prompts and tokens on the same chips."""
    chip, model = problem.system.chip.name, problem.model.name
    own = intervals().engines.get(engine)
    if own is None or chip not in own.chips:
        return Interval(None, "another chip", 0, f"no published run here is of {engine} on {chip}")
    is_known = model in own.models
    sizes = getattr(own.known if is_known else own.other, metric)
    of = f"{engine}, {'models' if is_known else 'other models than those'} that it was fitted to"
    factor = quantile(sizes)
    if factor is None:
        reason = f"only {len(sizes)} published runs are as near, of {MIN_ROWS} that an interval needs: {of}"
        return Interval(None, of, len(sizes), reason)
    return Interval(math.exp(factor), of, len(sizes))


def interval_apart(problem: ServeProblem, engine: str, metric: str) -> Interval:
    """The same of workers apart; there are published runs of few engines and chips."""
    del metric
    reason = f"no published run here is of workers apart with {engine} on {problem.system.chip.name}"
    return Interval(None, "workers apart", 0, reason)


def documents(problem: ServeProblem, plan: Plan, metrics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of the means by events, in JSON types."""
    known = interval_apart if isinstance(plan, SplitPlan) else interval
    return {
        f"{name}_s": known(problem, plan.engine, name).document(metrics[f"{name}_s"]["mean"]) | {"method": METHOD}
        for name in ("ttft", "tpot")
    }

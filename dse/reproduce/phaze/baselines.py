"""Throughput and utilisation of every strategy that Table 5 and Figure 4 compare."""

from collections.abc import Mapping
from typing import Any

from dse.codesign.baseline import PAPERS_REFERENCE
from dse.codesign.evaluation.evaluator import Evaluator
from dse.reproduce.phaze.context import Answered, Context, plan_at, position
from hardware.units import bytes_from_gib

EXPERT, SOLVER, COMMON, OWN = "TPUv4 + expert", "TPUv4 + our placement", "common", "per model"
SPOTLIGHT_EXPERT, SPOTLIGHT = "Spotlight + expert", "Spotlight + our placement"
BLACK_BOX = "Bayesian + our placement"
PAPERS_COMMON = "the paper's common machine"

EXPERTS_CHOICES = (
    "the expert baseline uses the best microbatch, HBM and recomputation, as ours does; the paper does "
    "not state its choice"
)
"""Why ratios to the expert differ from the paper's."""


def spec_name(model: str) -> str:
    """The accelerator spec of Spotlight's machine for ``model``."""
    return f"spotlight-{model}"


Strategy = tuple[float | None, float | None]
"""(samples/s, model FLOPs utilisation in per cent); None where nothing fits or the search had no answer."""


def strategies(context: Context, model: str, cost_model: str) -> dict[str, Strategy]:
    """What each strategy reaches for one model under one cost model."""
    own, shared = context.model_search(model, cost_model), context.common_search(cost_model)
    tpuv4 = context.baselines(model, cost_model, PAPERS_REFERENCE)
    spotlight = context.baselines(model, cost_model, spec_name(model))
    return {
        EXPERT: _baseline(tpuv4.get("expert")),
        SOLVER: _baseline(tpuv4.get("own")),
        SPOTLIGHT_EXPERT: _baseline(spotlight.get("expert")),
        SPOTLIGHT: _baseline(spotlight.get("own")),
        COMMON: _answer(shared, model),
        OWN: _answer(own, model),
    }


def traced_utilisations(context: Context, model: str, way: str) -> dict[str, float | None]:
    """Model FLOPs utilisation in per cent with traced layers, on TPUv4 and on the paper's common machine.

    ``way`` is :data:`~dse.reproduce.phaze.context.TRACED` or :data:`~dse.reproduce.phaze.context.MAPPED`.
    """
    tpuv4 = context.baselines(model, way, PAPERS_REFERENCE)
    return {
        EXPERT: _baseline(tpuv4.get("expert"))[1],
        SOLVER: _baseline(tpuv4.get("own"))[1],
        PAPERS_COMMON: on_papers_common(context, model, way)[1],
    }


def on_papers_common(context: Context, model: str, way: str) -> Strategy:
    """What the paper's common machine reaches with our placement at the paper's HBM size."""
    problem = context.options((model,), way).problem()
    machines, common = problem.machines(), context.paper.common
    index = position(machines, common.accelerator, common.accelerator.global_buffer_mb)
    assert index is not None, "the paper's machines must be in the search space"
    plan = plan_at(context.evaluate(model, way, index), bytes_from_gib(common.hbm_gb))
    if plan is None:
        return None, None
    (job,) = problem.jobs
    utilised = Evaluator(job, machines).utilisation(index, plan)
    return plan.throughput_per_s(job.global_batch), 100 * utilised


def _baseline(entry: Mapping[str, Any] | None) -> Strategy:
    if entry is None or entry["plan"] is None:
        return None, None
    return entry["plan"]["throughput_per_s"], 100 * entry["model_flops_utilisation"]


def _answer(answered: Answered, model: str) -> Strategy:
    plan = answered.plan(model)
    if plan is None:
        return None, None
    return plan["throughput_per_s"], 100 * answered.result.metrics["models"][model]["model_flops_utilisation"]

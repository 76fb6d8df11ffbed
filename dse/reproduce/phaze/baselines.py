"""Throughput and utilisation of every strategy that Table 5 and Figure 4 compare."""

from collections.abc import Mapping
from typing import Any

from dse.codesign.baseline import PAPERS_REFERENCE
from dse.reproduce.phaze.context import Answered, Context
from dse.reproduce.phaze.spotlight import spec_name

EXPERT, SOLVER, COMMON, OWN = "TPUv4 + expert", "TPUv4 + our placement", "common", "per model"
SPOTLIGHT_EXPERT, SPOTLIGHT = "Spotlight + expert", "Spotlight + our placement"
BLACK_BOX = "Bayesian + our placement"

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


def _baseline(entry: Mapping[str, Any] | None) -> Strategy:
    if entry is None or entry["plan"] is None:
        return None, None
    return entry["plan"]["throughput_per_s"], 100 * entry["model_flops_utilisation"]


def _answer(answered: Answered, model: str) -> Strategy:
    plan = answered.plan(model)
    if plan is None:
        return None, None
    return plan["throughput_per_s"], 100 * answered.result.metrics["models"][model]["model_flops_utilisation"]

"""The one architecture for all models: the best under the published arithmetic mean, and under the geometric mean."""

from collections.abc import Iterator

import numpy as np

from dse.codesign.objective import Mean, Objective
from dse.reproduce.phaze.context import Answered, Context, plan_at, position
from dse.reproduce.phaze.published import Cores
from dse.reproduce.phaze.table2 import cores_text, memory_text, our_cores, our_memory_text
from dse.reproduce.section import Comparison, Row, Section, Table, not_measured, ratio, shown, times
from hardware.units import MIB, bytes_from_gib

HEADERS = (
    "source",
    "mean of throughputs",
    "{tc, vc, x, y, vc lanes}",
    "{glb, L2 tc, L2 vc}",
    "HBM",
    "mean, samples/s",
    "paper's machine",
    "ours / paper's",
    "proof",
)

_MEANS: tuple[Mean, ...] = ("arithmetic", "geometric")


def common(context: Context) -> Section:
    """Ours under every cost model and both means next to the paper's."""
    published = context.paper.common
    machine = published.accelerator
    rows: list[Row] = [
        ("paper", "arithmetic", cores_text(machine), memory_text(machine), f"{published.hbm_gb} GB", "", "", "", "")
    ]
    comparisons: list[Comparison] = []
    for cost_model in context.cost_models:
        for mean in _MEANS:
            answered = context.common_search(cost_model, mean)
            reference = paper_score(context, cost_model, mean, answered)
            rows.append(_row(cost_model, mean, answered, reference))
            comparisons += _comparisons(context, cost_model, mean, answered, reference)
    notes = [
        "“paper's machine”: same mean for the paper's common accelerator with our placement and HBM size.",
        "The smallest models dominate an arithmetic mean of throughputs; a geometric mean compares ratios.",
    ]
    if set(context.models) != set(context.paper.models):
        notes.append(
            f"Only over {', '.join(context.models)}, so not comparable with the paper, which covers eight models."
        )
    return Section("common", "Common architecture", (Table(HEADERS, tuple(rows)),), tuple(notes), tuple(comparisons))


def paper_score(context: Context, cost_model: str, mean: Mean, answered: Answered) -> float | None:
    """The mean that the paper's common accelerator reaches at the HBM size of our answer; None where one misfits."""
    machine = context.paper.common.accelerator
    index = position(answered.machines, machine, machine.global_buffer_mb)
    plan = answered.plan(context.models[0])
    if index is None or plan is None:
        return None
    size_bytes = bytes_from_gib(plan["hbm_gb"])
    plans = [plan_at(context.evaluate(model, cost_model, index), size_bytes) for model in context.models]
    batch = context.paper.setup.global_batch
    values = np.array([0.0 if plan is None else plan.throughput_per_s(batch) for plan in plans])
    return float(Objective(mean=mean).score(values)) or None


def _row(cost_model: str, mean: Mean, answered: Answered, reference: float | None) -> Row:
    if answered.value is None:
        return (cost_model, mean, "", "", "", "–", "", "", answered.proof)
    machine = answered.result.solution["architecture"]
    plan = next(iter(answered.result.solution["models"].values()))
    return (
        cost_model,
        mean,
        cores_text(our_cores(machine)),
        our_memory_text(machine),
        f"{plan['hbm_gb']:g} GB",
        shown(answered.value),
        shown(reference),
        times(ratio(answered.value, reference)),
        answered.proof,
    )


def _comparisons(
    context: Context, cost_model: str, mean: Mean, answered: Answered, reference: float | None
) -> Iterator[Comparison]:
    """Every number of the row; the model is called after its mean."""
    published = context.paper.common
    machine = answered.result.solution.get("architecture")
    reason = context.unlike_all_models if mean == "arithmetic" else "the paper uses the arithmetic mean"
    share = ratio(reference, answered.value)
    worth = (
        [] if share is None else [f"under our cost model, the paper's machine has {share:.0%} of our mean throughput"]
    )
    cause = "; ".join([*worth, not_measured(context.prices(cost_model))])
    name = f"common ({mean} mean)"
    for field in Cores.model_fields:
        ours = None if machine is None else float(getattr(our_cores(machine), field))
        paper = float(getattr(published.accelerator, field))
        yield Comparison(name, cost_model, field, "", ours, paper, reason, cause)
    buffer_mb = None if machine is None else machine["global_buffer_bytes"] / MIB
    paper_mb = float(published.accelerator.global_buffer_mb)
    yield Comparison(name, cost_model, "global_buffer", "MB", buffer_mb, paper_mb, reason, cause)
    plan = answered.plan(context.models[0])
    hbm_gb = None if plan is None else float(plan["hbm_gb"])
    yield Comparison(name, cost_model, "hbm", "GB", hbm_gb, float(published.hbm_gb), reason, cause)
    yield Comparison(name, cost_model, "mean throughput", "samples/s", answered.value, None)
    yield Comparison(name, cost_model, "upper bound on mean throughput", "samples/s", answered.result.bound, None)
    yield Comparison(name, cost_model, "mean throughput of the paper's accelerator", "samples/s", reference, None)

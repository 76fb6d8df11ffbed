"""What a reader of an answer should know that is not a fault: machines it leaves idle, networks it takes for more, what
the spec of a fixed accelerator leaves open, power that its chip cannot draw, what an area leaves out, and work above a
machine's peak.
"""

from collections.abc import Mapping
from typing import Any

from dse.codesign.problem import CodesignProblem, TrainingJob
from dse.report.view import Decisive
from hardware.cost_model import CostModel
from hardware.network import Network
from hardware.network_specs import LevelledNetworkSpec, list_networks, network_spec
from hardware.specs import Accelerator


def notes(problem: CodesignProblem, plans: Mapping[str, Mapping[str, Any]], figures: object = None) -> list[str]:
    """The notes of an answer, one sentence each.

    Args:
        problem: the request.
        plans: ``solution.models`` of the answer; empty where there is none.
        figures: ``metrics.models`` of the answer, of which power and utilisation are read; anything else has none.
    """
    sentences = [*network_notes(problem.network, problem.accelerators), *_area_notes(problem)]
    if problem.fixed is not None:
        sentences += [
            Decisive(f"{problem.fixed.name}: {note}.") for note in (*problem.fixed.notes, *problem.fixed.estimates)
        ]
        sentences += power_notes(problem.fixed, figures)
    sentences += _utilisation_notes(problem.cost_model, figures)
    for job in problem.jobs:
        sentences += [_dropped(job, microbatch, reason) for microbatch, reason in job.dropped_microbatch_sizes]
        if job.name in plans and plans[job.name]["accelerators_used"] < job.accelerators:
            sentences.append(_idle(job, plans[job.name]))
    return sentences


def _area_notes(problem: CodesignProblem) -> list[str]:
    """That throughput per mm² is of cores and buffers alone."""
    if problem.objective.per != "per-mm2" or problem.cost_model.hardware.interfaces_take_area.value:
        return []
    return [
        f"per-mm2 counts only the area of cores and buffers: {problem.cost_model.name} leaves out the interfaces to "
        "HBM and network."
    ]


def power_notes(fixed: Accelerator, figures: object) -> list[str]:
    """That the modelled power of a model's training is above what the chip may draw."""
    remarks = [(name, fixed.power_note(power_w)) for name, power_w in _stated(figures, "power_w")]
    return [Decisive(f"{name} on {note}.") for name, note in remarks if note is not None]


def _utilisation_notes(cost_model: CostModel, figures: object) -> list[str]:
    """That model FLOPs above the machine's peak come from what the cost model does not price."""
    above = [(name, share) for name, share in _stated(figures, "model_flops_utilisation") if share > 1]
    training = cost_model.training
    unpriced = {
        "gradients of weights": not training.weight_gradients.value,
        "the batch dimension of linear layers": not training.linear_keeps_batch.value,
    }
    omitted = " and ".join(words for words, is_left_out in unpriced.items() if is_left_out)
    reason = f", which leaves out {omitted}" if omitted else ""
    return [
        Decisive(
            f"{name}: {100 * share:.1f} % of peak FLOPs is an artefact of the cost model {cost_model.name}{reason}; "
            "no machine exceeds its peak."
        )
        for name, share in above
    ]


def _stated(figures: object, key: str) -> list[tuple[str, float]]:
    """(model, figure) of the models that state a number under ``key``."""
    rows = figures.items() if isinstance(figures, Mapping) else ()
    stated = [(name, figure.get(key)) for name, figure in rows if isinstance(figure, Mapping)]
    return [(name, figure) for name, figure in stated if isinstance(figure, float)]


def network_notes(network: Network, accelerators: int) -> list[str]:
    """That one level of links stands for more accelerators than it joins, or for the levels inside it."""
    level, joined = network, accelerators
    sentences: list[str] = []
    if network.inner is not None and network.inner.inner is not None:
        sentences.append(
            f"Placement models only the innermost and outermost levels of {network.name}: traffic that leaves a "
            f"node of {network.node_accelerators} accelerators is priced on the outermost links."
        )
    while True:
        if 0 < level.domain_accelerators < joined:
            sentences.append(
                Decisive(
                    f"The network {level.name} is used as one flat level for {joined:,} accelerators, although its "
                    f"links connect at most {level.domain_accelerators:,}{_levelled(level.name)}."
                )
            )
        if level.inner is None:
            return sentences
        level, joined = level.inner, level.inner_accelerators


def _levelled(name: str) -> str:
    """The networks of several levels whose innermost is the network of this name, as a hint."""
    specs = [network_spec(each) for each in list_networks()]
    names = [s.name for s in specs if isinstance(s, LevelledNetworkSpec) and s.levels[0].network == name]
    return f"; --network {' or '.join(names)} has a level between servers" if names else ""


def _idle(job: TrainingJob, plan: Mapping[str, Any]) -> str:
    idle = job.accelerators - plan["accelerators_used"]
    return Decisive(
        f"{job.name} leaves {idle:,} of {job.accelerators:,} accelerators unused: {plan['pipeline']} pipeline × "
        f"{plan['data']} data × {plan['tensor']} tensor is the fastest plan found."
    )


def _dropped(job: TrainingJob, microbatch: int, reason: str) -> str:
    return Decisive(f"{job.name} is not evaluated at microbatch {microbatch}, for which it has no graph: {reason}.")

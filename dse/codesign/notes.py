"""What a reader of an answer should know that is no fault: machines it leaves idle, networks it takes for more."""

from collections.abc import Mapping
from typing import Any

from dse.codesign.problem import CodesignProblem, TrainingJob
from hardware.network import LevelledNetworkSpec, Network, list_networks, network_spec


def notes(problem: CodesignProblem, plans: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The notes of an answer, one sentence each.

    Args:
        problem: what was asked.
        plans: ``solution.models`` of the answer; empty where there is none.
    """
    found = [*_network_notes(problem.network, problem.accelerators)]
    for job in problem.jobs:
        found += [_dropped(job, microbatch, reason) for microbatch, reason in job.dropped_microbatches]
        if job.name in plans and plans[job.name]["accelerators_used"] < job.accelerators:
            found.append(_idle(job, plans[job.name]))
    return found


def _network_notes(network: Network, accelerators: int) -> list[str]:
    """That one level of links stands for more accelerators than it joins."""
    level: Network | None = network
    joined = accelerators
    found = []
    while level is not None:
        if 0 < level.domain_accelerators < joined:
            found.append(
                f"The network {level.name} is used as one flat level for {joined:,} accelerators, although its links "
                f"join {level.domain_accelerators:,} at most{_levelled(level.name)}."
            )
        joined, level = level.inner_accelerators, level.inner
    return found


def _levelled(name: str) -> str:
    """The networks of several levels whose innermost is the network of this name, as a hint."""
    specs = [network_spec(each) for each in list_networks()]
    names = [s.name for s in specs if isinstance(s, LevelledNetworkSpec) and s.levels[0].network == name]
    return f"; --network {' or '.join(names)} has a level between servers" if names else ""


def _idle(job: TrainingJob, plan: Mapping[str, Any]) -> str:
    idle = job.accelerators - plan["accelerators_used"]
    return (
        f"{job.name} leaves {idle:,} of {job.accelerators:,} accelerators unused: {plan['pipeline']} pipeline × "
        f"{plan['data']} data × {plan['tensor']} tensor is the fastest plan found."
    )


def _dropped(job: TrainingJob, microbatch: int, reason: str) -> str:
    return f"{job.name} is not trained at microbatch {microbatch}, at which it has no graph: {reason}."

"""The pipelines of a reproduction of Auto-MAP: the best plans under several objectives, and the paper's under the same.

The paper names the layers near its cuts and the devices before them. Its plan is the best one whose cuts lie in
these layers and whose devices are cut as printed: where that is as short as the best plan of all, the paper's is an
optimum of the objective.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from time import process_time
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dse.graph.step import StepGraph
from dse.parallel.inputs import device_of
from dse.parallel.pipeline.exact import Answer, near, server_cuts, solve
from dse.parallel.pipeline.length import Length, length
from dse.parallel.pipeline.memory import min_memory_bytes
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import RADIUS, DeviceCutting, PipelinePlan, PipelineProblem, Profile, StateName
from dse.parallel.pipeline.profiling import profile_of
from dse.parallel.pipeline.strategy import source_of, state_factor_of
from dse.parallel.pipeline.view import layer_of
from dse.reproduce.automap.models import PIPELINED, step_of
from dse.reproduce.automap.published import Configuration, PublishedPipeline, read_published
from hardware.chips import chip
from hardware.network_specs import network

SERVER = 8
"""Devices of a server (Table 2)."""


@dataclass(frozen=True)
class PipelineObjective:
    """What is minimised.

    Attributes:
        text: for people.
        microbatches: of a batch; None for microbatches of the paper's size.
        is_computing: whether nothing takes time to send or to join; devices are cut as the paper has them then.
        is_counted: whether every point takes the same time.
    """

    text: str
    microbatches: int | None = None
    is_computing: bool = False
    is_counted: bool = False


OBJECTIVES: Mapping[str, PipelineObjective] = MappingProxyType(
    {
        "length": PipelineObjective("pipeline length, microbatches of 16 samples"),
        "length 16": PipelineObjective("same with 16 microbatches", microbatches=16),
        "computing": PipelineObjective(
            "length without transfers and all-reduces, with the paper's device cuts: equal compute time",
            is_computing=True,
        ),
        "instructions": PipelineObjective(
            "same with equal time for every instruction", is_computing=True, is_counted=True
        ),
    }
)
"""By what they are called in tables."""


class PipelineTrial(NamedTuple):
    """A step to cut; ``accelerator`` and ``network`` are names of specs."""

    step: str
    configuration: Configuration
    objective: str
    device_cutting: DeviceCutting
    accelerator: str
    network: str


@dataclass(frozen=True)
class FoundPipeline:
    """A plan: its length, the layer behind each cut, the first device behind it, and the cuts as shares of points."""

    length_s: float
    layers: tuple[str, ...]
    devices: tuple[int, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class PipelineOutcome:
    """What a trial gave.

    Attributes:
        best: the best plan, proven.
        published: the paper's plan as well as its layers allow; None where it has none.
        seconds: of CPU time to find and prove the best one.
    """

    best: FoundPipeline
    published: FoundPipeline | None
    seconds: float

    @property
    def excess(self) -> float | None:
        """How much longer the paper's plan is, as a share."""
        return None if self.published is None else self.published.length_s / self.best.length_s - 1


@lru_cache(maxsize=4)
def profiled(step: str, device: str) -> tuple[StepGraph, Profile, tuple[str, ...]]:
    """The step, the profile of the paper's batch, and the layer of each point."""
    graph = step_of(step)
    of = profile_of(graph, device_of(chip(device)), step)
    labels = tuple(map(layer_of, source_of(graph, of).labels))
    return graph, of.profile.of_batch(read_published().pipelines.batch / batch_of(graph)), labels


def batch_of(graph: StepGraph) -> int:
    """The samples of a step: the size that most of its inputs begin with."""
    first = [graph.values[each.value].dims[:1] for each in graph.arguments if each.role == "input"]
    ((size,), _), *_ = Counter(dims for dims in first if dims).most_common(1)
    return size


def problem_of(trial: PipelineTrial) -> PipelineProblem:
    """The problem of a trial, without a limit of memory."""
    published, objective = read_published().pipelines, OBJECTIVES[trial.objective]
    _, profile, _ = profiled(trial.step, trial.accelerator)
    if objective.is_counted:
        profile = replace(profile, forward_s=np.ones(profile.points), backward_s=np.zeros(profile.points))
    if objective.is_computing:
        nothing = np.zeros_like(profile.weight_bytes)
        profile = replace(profile, cut_bytes=np.zeros_like(profile.cut_bytes), weight_bytes=nothing, shared=())
    servers = published.servers[trial.configuration]
    count = objective.microbatches or published.batch // published.microbatch
    joined = network(trial.network).spanning(SERVER * servers)
    return PipelineProblem(profile, joined, SERVER * servers, servers, count)


def pipelined(trial: PipelineTrial) -> dict[str, Any]:
    """The outcome of a trial in JSON types; a function of the trial but for its seconds."""
    problem = problem_of(trial)
    started = process_time()
    row = read_published().pipelines.row(PIPELINED[trial.step], trial.configuration)
    if OBJECTIVES[trial.objective].is_computing:
        answer = solve(problem, [server_cuts(problem) if row is None else row.devices])
    else:
        answer = exact(PipelineContext(problem, trial.device_cutting))
    seconds = process_time() - started
    assert answer.plan is not None, "a plan must exist without a memory limit"
    _, _, layers = profiled(trial.step, trial.accelerator)
    published = None if row is None else _published_plan(row, problem, layers)
    return {
        "best": _document(problem, answer.plan, layers),
        "published": None if published is None else _document(problem, published, layers),
        "seconds": seconds,
    }


def _published_plan(row: PublishedPipeline, problem: PipelineProblem, layers: tuple[str, ...]) -> PipelinePlan | None:
    return solve(problem, [row.devices], places=[places_of(layer, layers) for layer in row.layers]).plan


def places_of(layer: str, layers: tuple[str, ...]) -> range:
    """The cuts before and between the points of a layer, and behind them.

    Raises:
        ValueError: no point is of the layer.
    """
    points = [place for place, each in enumerate(layers) if f"{each}/".startswith(f"{layer}/")]
    if not points:
        raise ValueError(f"`layer` must be the scope of a point, but got {layer}")
    return range(points[0], points[-1] + 2)


def _document(problem: PipelineProblem, plan: PipelinePlan, layers: tuple[str, ...]) -> dict[str, Any]:
    return {
        "length_s": length(problem, plan).length_s,
        "layers": [_near(layers, cut) for cut in plan.cuts],
        "devices": list(plan.device_cuts),
        "shares": [cut / problem.profile.points for cut in plan.cuts],
    }


def _near(layers: tuple[str, ...], cut: int) -> str:
    """The scope of the next point that has one, as far as the layer that it names; else its first part."""
    parts = next((each.split("/") for each in layers[cut:] if "/" in each), ["end"])
    while len(parts) > 1 and "layer" not in parts[-1]:
        parts = parts[:-1]
    return "/".join(parts)


def outcome_of(document: Mapping[str, Any]) -> PipelineOutcome:
    """What :func:`pipelined` wrote."""
    best, published = (found_of(document[key]) for key in ("best", "published"))
    assert best is not None
    return PipelineOutcome(best, published, document["seconds"])


def found_of(document: Mapping[str, Any] | None) -> FoundPipeline | None:
    """A pipeline in JSON types."""
    if document is None:
        return None
    sequences = (tuple(document[key]) for key in ("layers", "devices", "shares"))
    return FoundPipeline(document["length_s"], *sequences)


@dataclass(frozen=True)
class SearchedPipeline:
    """The shortest pipeline of the paper's search space, and the length with the paper's device cuts; None of none."""

    best: FoundPipeline | None
    printed_s: float | None


class SearchTrial(NamedTuple):
    """A step that is cut as the paper's search does; ``accelerator`` and ``network`` are names of specs."""

    step: str
    configuration: Configuration
    accelerator: str
    network: str


def searched(trial: SearchTrial) -> dict[str, Any]:
    """The shortest pipeline of the paper's search space (None if that is empty), and the length of the shortest one
    with the paper's device cuts (None without any); in JSON types.

    There a pivot implies the devices in front of it (4.4): as many as its share of the computing, rounded down, which
    are at most 3 from equal stages. Every stage is the first to read some variable: that the head of T5 reads the
    embedding again does not count (5.2.3).
    """
    problem = problem_of(PipelineTrial(trial.step, trial.configuration, "length", "near", *trial[2:]))
    profile, devices = problem.profile, problem.devices
    problem = replace(problem, profile=replace(profile, variables=(profile.weight_bytes > 0).astype(np.int64)))
    work_s = np.concatenate(([0.0], np.cumsum(profile.forward_s + problem.backward_s)))
    implied = np.floor(work_s * devices / work_s[-1]).astype(np.int64)
    answers: dict[tuple[int, ...], Answer] = {}
    for cuts in near(server_cuts(problem), RADIUS, devices):
        places = [range(*np.searchsorted(implied, [cut, cut + 1])) for cut in cuts]
        if all(map(len, places)):
            answers[cuts] = solve(problem, [cuts], places=places)
    best = min(answers.values(), key=lambda answer: answer.length_s, default=None)
    row = read_published().pipelines.row(PIPELINED[trial.step], trial.configuration)
    printed = None if row is None else answers.get(row.devices)
    _, _, layers = profiled(trial.step, trial.accelerator)
    return {
        "best": None if best is None or best.plan is None else _document(problem, best.plan, layers),
        "printed_s": None if printed is None or printed.plan is None else printed.length_s,
    }


class MemoryTrial(NamedTuple):
    """A step whose pipelines need memory: by stages, what of trained tensors is kept, and of activations."""

    step: str
    configuration: Configuration
    state: StateName
    activations: str  # "none", "kept" or "recomputed"
    accelerator: str
    network: str


def needed_bytes(trial: MemoryTrial) -> int:
    """The memory that a device needs at least for a stage a server."""
    problem = problem_of(
        PipelineTrial(trial.step, trial.configuration, "length", "equal", trial.accelerator, trial.network)
    )
    graph, profile, _ = profiled(trial.step, trial.accelerator)
    if trial.activations == "none":
        profile = replace(profile, stash_bytes=np.zeros_like(profile.stash_bytes))
    problem = replace(
        problem,
        profile=profile,
        state_factor=state_factor_of(graph, trial.state),
        recompute=trial.activations == "recomputed",
    )
    return min_memory_bytes(problem, [server_cuts(problem)])


def stages_as_cut(step: str, machine: tuple[str, str]) -> list[Length]:
    """The best plan of configuration C for the first so many cuts, of 1 to 4 stages, each on an equal part of devices.

    What Figure 11 shows: how all-reduces change from cut to cut.
    """
    trial = PipelineTrial(step, "C", "length", "equal", *machine)
    problem = problem_of(trial)
    plan = exact(PipelineContext(problem, "equal")).plan
    assert plan is not None
    return [
        length(replace(problem, stages=count + 1), PipelinePlan(plan.cuts[:count], plan.device_cuts[:count]))
        for count in range(problem.stages)
    ]


def equal_parts_s(trial: PipelineTrial) -> float:
    """The length of the shortest pipeline whose devices are cut between servers alone, a stage on each."""
    problem = problem_of(trial)
    plan = solve(problem, [server_cuts(problem)]).plan
    assert plan is not None, "a plan must exist without a memory limit"
    return length(problem, plan).length_s


def at_boundaries_s(trial: PipelineTrial, shares: Sequence[float]) -> float:
    """The length of the pipeline cut at ``shares`` of its points and between servers."""
    problem = problem_of(trial)
    cuts = tuple(round(share * problem.profile.points) for share in shares)
    return length(problem, PipelinePlan(cuts, server_cuts(problem))).length_s


def profile_of_batch(step: str, device: str) -> Profile:
    """The profile of the paper's batch."""
    return profiled(step, device)[1]


def memory_trials(step: str, machine: tuple[str, str]) -> list[MemoryTrial]:
    """What :meth:`Study.memory` needs."""
    return [
        MemoryTrial(step, configuration, state, activations, *machine)
        for configuration in ("A", "B", "C")
        for state in ("weights", "gradients", "optimizer")
        for activations in ("none", "recomputed", "kept")
    ]


def pipeline_trials(
    steps: Sequence[str], configurations: Sequence[Configuration], objectives: Sequence[str], machine: tuple[str, str]
) -> list[PipelineTrial]:
    """Every step on every configuration under every objective."""
    return [
        PipelineTrial(step, configuration, objective, "near", *machine)
        for step in steps
        for configuration in configurations
        for objective in objectives
    ]

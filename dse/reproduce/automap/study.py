"""The plans of a reproduction of Auto-MAP: each step under several rules, and the paper's plan under the same.

The paper states its reward (+0.4 for a dimension that is split, +0.1 for one that is whole, section 4.2), which is most
where most dimensions are split, but prints plans that split fewer. So each step is planned under rules that differ in
objective, in what is left whole and in resharding, and under each of them the paper's plan is completed as well as it
can be: where that is as good as the best plan, the paper's is an optimum of those rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from dse.graph.step import StepArgument
from dse.parallel.check import account
from dse.parallel.formats import plan_document, stated_from_document
from dse.parallel.inputs import device_of
from dse.parallel.mesh import WHOLE, Layout, Mesh, mesh_of
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import Objective, ParallelProblem
from dse.parallel.resharding import PICO
from dse.parallel.solve import solve
from dse.reproduce.automap.models import Family, family_of, step_of
from dse.reproduce.automap.pipelines import (
    PipelineOutcome,
    SearchedPipeline,
    SearchTrial,
    found_of,
    memory_trials,
    needed_bytes,
    outcome_of,
    pipeline_trials,
    pipelined,
    searched,
)
from dse.reproduce.automap.published import Configuration, read_published
from dse.reproduce.trials import finished
from dse.results.result import FailedCheckError
from dse.run.run import Run
from dse.sharding.hlo.table import step_factors
from hardware.chips import chip
from hardware.inputs import InputError
from hardware.network_specs import network


@dataclass(frozen=True)
class Rules:
    """What is optimised, and what is fixed beforehand.

    Attributes:
        objective, method: of ``dse parallel``.
        whole: what is not split: the inputs (operator partitioning alone), or the layers of the family.
        text: the same for people; {layers} stands for those layers.
    """

    objective: Objective
    method: Literal["linkage", "exact"]
    whole: Literal["nothing", "inputs", "layers"]
    text: str


RULES: Mapping[str, Rules] = MappingProxyType(
    {
        "count": Rules(
            "count", "linkage", "nothing", "maximum number of split variable dimensions (the paper's reward)"
        ),
        "count*": Rules("count", "linkage", "layers", "same, with {layers} not split"),
        "cost": Rules("cost", "linkage", "nothing", "minimum step time without resharding"),
        "cost*": Rules("cost", "linkage", "inputs", "same, with inputs not split: operator partitioning only"),
        "reshard": Rules("cost", "exact", "nothing", "minimum step time with resharding"),
    }
)
"""By what they are called in tables."""


def rules_of(family: Family) -> tuple[str, ...]:
    """The rules under which a family is planned: those that leave layers whole only where it has any."""
    return tuple(name for name, rules in RULES.items() if rules.whole != "layers" or family.layers)


DATA_PARALLEL = "data parallel"
"""In place of rules: the linkage group of most inputs is split."""


class Machine(NamedTuple):
    """What is planned for: a mesh, the spec of each device, and of the network; as ``dse parallel`` takes them."""

    mesh: str
    accelerator: str
    network: str


class Trial(NamedTuple):
    """A step to plan under some rules."""

    step: str
    rules: str
    machine: Machine
    seed: int


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that the checker has passed.

    Attributes:
        value: of the objective: seconds, or split dimensions.
        is_proven: whether it is the best.
        step_s: the time of a step.
        communication_s: what of it collectives take.
        split_dimensions: of trained tensors.
        state_bytes: of the arguments on a device.
        arguments: of each argument by name the dimension that each axis splits.
    """

    value: float
    is_proven: bool
    step_s: float
    communication_s: float
    split_dimensions: int
    state_bytes: int
    arguments: dict[str, list[int]]


@dataclass(frozen=True)
class Outcome:
    """What a trial gave.

    Attributes:
        best: the best plan; None where no plan keeps the rules.
        published: the best plan that splits the variables of the paper's table as that does, all on one axis.
        seconds: to read the step and to plan it.
    """

    best: CheckedPlan | None
    published: CheckedPlan | None
    seconds: float

    @property
    def is_published_optimal(self) -> bool:
        """Whether the paper's plan is as good as the best one."""
        if self.best is None or self.published is None or not self.best.is_proven:
            return False
        return self.published.value == self.best.value


def problem_of(trial: Trial) -> ParallelProblem:
    """The problem of a trial, without pins."""
    mesh, chosen = mesh_of(trial.machine.mesh, "dse reproduce"), chip(trial.machine.accelerator)
    rules = RULES.get(trial.rules)
    graph = step_of(trial.step)
    return ParallelProblem(
        graph,
        mesh,
        device_of(chosen),
        network(trial.machine.network).spanning(mesh.devices),
        "cost" if rules is None else rules.objective,
        chosen.hbm_bytes,
        file=trial.step,
        rules=step_factors(graph, trial.step),
    )


def pins_of(trial: Trial) -> dict[int, Layout]:
    """What the rules leave whole, by the positions of arguments."""
    family, whole = family_of(trial.step), RULES[trial.rules].whole
    mesh = mesh_of(trial.machine.mesh)

    def is_whole(argument: StepArgument) -> bool:
        if whole == "inputs":
            return argument.role == "input"
        is_layer = argument.role == "parameter" and family.variable(argument.name) in family.layers
        return whole == "layers" and is_layer

    return {number: mesh.whole for number, each in enumerate(step_of(trial.step).arguments) if is_whole(each)}


def published_pins(step: str, mesh: Mesh, axis: int) -> dict[int, Layout] | None:
    """The layouts that the paper's table gives to the variables it counts, split on one axis.

    None where a dimension is not a multiple of the devices along that axis.
    """
    graph, family = step_of(step), family_of(step)
    plan, pins = read_published().plan(family.name), dict[int, Layout]()
    for place, argument in enumerate(graph.arguments):
        variable = family.variable(argument.name) if argument.role == "parameter" else None
        if variable in plan:
            layout = tuple(plan[variable] if number == axis else WHOLE for number in range(len(mesh.axes)))
            if not mesh.fits(layout, graph.values[argument.value].dims):
                return None
            pins[place] = layout
    return pins


def planned(trial: Trial) -> dict[str, Any]:
    """The outcome of a trial in JSON types; a function of the trial but for its seconds."""
    started = perf_counter()
    step_of.cache_clear()  # so that its reading is in the seconds
    problem = problem_of(trial)
    if trial.rules == DATA_PARALLEL:
        from dse.parallel.baselines import data_parallel

        problem = replace(problem, state_bytes=None)
        prices = Prices(problem)
        plan = data_parallel(problem, prices)
        seconds = perf_counter() - started
        checked = None if plan is None else _checked(problem, prices, plan, None)
        return {"best": checked, "published": None, "seconds": seconds}
    problem = problem.pinned(pins_of(trial))
    prices = Prices(problem)
    best = _solved(problem, prices, trial)
    seconds = perf_counter() - started
    completed = []
    for axis in range(len(problem.mesh.axes)):
        pins = published_pins(trial.step, problem.mesh, axis)
        solved = None if pins is None else _solved(problem.pinned({**problem.pins, **pins}), prices, trial)
        if solved is not None:
            completed.append(solved)
    sign = -1 if problem.objective == "count" else 1
    published = min(completed, key=lambda solved: sign * solved["value"], default=None)
    return {"best": best, "published": published, "seconds": seconds}


def _solved(problem: ParallelProblem, prices: Prices, trial: Trial) -> dict[str, Any] | None:
    try:
        solution = solve(problem, prices, RULES[trial.rules].method, trial.seed)
    except InputError:
        return None  # nothing keeps all pins without resharding
    if solution.plan is None:
        return None
    return _checked(problem, prices, solution.plan, solution.value == solution.bound)


def _checked(problem: ParallelProblem, prices: Prices, plan: Plan, is_proven: bool | None) -> dict[str, Any]:
    """The plan as :class:`CheckedPlan` has it, after the independent check."""
    of = account(problem, stated_from_document(problem, plan_document(problem, prices, plan), "solution"))
    if of.faults:
        raise FailedCheckError("; ".join(of.faults))
    step_s = of.step_ps * PICO
    return {
        "value": float(of.split_dimensions) if problem.objective == "count" else step_s,
        "is_proven": bool(is_proven),
        "step_s": step_s,
        "communication_s": of.communication_ps * PICO,
        "split_dimensions": of.split_dimensions,
        "state_bytes": of.state_bytes,
        "arguments": {
            argument.name: list(layout)
            for argument, layout in zip(problem.graph.arguments, plan.arguments, strict=True)
        },
    }


@dataclass(frozen=True)
class Study:
    """All plans of one run.

    Attributes:
        steps: names of built-in steps, or files.
        machine: what is planned for.
        run: the means; each plan is made once and is in its journal.
        pipelined: names of built-in steps that are cut into pipelines.
    """

    steps: tuple[str, ...]
    machine: Machine
    run: Run
    pipelined: tuple[str, ...] = ()

    def outcomes(self, rules: Sequence[str], steps: Sequence[str] | None = None) -> dict[tuple[str, str], Outcome]:
        """The outcome of every (step, rules).

        Raises:
            StoppedError: the run was stopped; what is finished is in the journal.
        """
        trials = [
            Trial(step, name, self.machine, self.run.seed)
            for step in (self.steps if steps is None else steps)
            for name in rules
        ]
        keys = {trial: f"{trial.step} {trial.rules}" for trial in trials}
        values, failed = finished(self.run, "plans", planned, keys)
        if failed:
            raise RuntimeError("; ".join(failed.values()))
        return {(trial.step, trial.rules): _outcome(values[trial]) for trial in trials}

    def pipelines(
        self,
        objectives: Sequence[str],
        steps: Sequence[str] | None = None,
        configurations: Sequence[Configuration] = ("A", "B", "C"),
    ) -> dict[tuple[str, Configuration], dict[str, PipelineOutcome]]:
        """Of every (step, configuration) the outcome under each objective.

        Raises:
            StoppedError: the run was stopped; what is finished is in the journal.
        """
        machine = (self.machine.accelerator, self.machine.network)
        trials = pipeline_trials(self.pipelined if steps is None else steps, configurations, objectives, machine)
        keys = {trial: f"pipeline {trial.step} {trial.configuration} {trial.objective}" for trial in trials}
        values, failed = finished(self.run, "pipelines", pipelined, keys)
        if failed:
            raise RuntimeError("; ".join(failed.values()))
        outcomes: dict[tuple[str, Configuration], dict[str, PipelineOutcome]] = {}
        for trial in trials:
            of = outcomes.setdefault((trial.step, trial.configuration), {})
            of[trial.objective] = outcome_of(values[trial])
        return outcomes

    def searched(self) -> dict[tuple[str, Configuration], SearchedPipeline]:
        """Of every (step, configuration) the shortest pipeline of the paper's search space.

        Raises:
            StoppedError: the run was stopped; what is finished is in the journal.
        """
        machine = (self.machine.accelerator, self.machine.network)
        configurations: tuple[Configuration, ...] = ("A", "B", "C")
        trials = [SearchTrial(step, each, *machine) for step in self.pipelined for each in configurations]
        keys = {each: f"searched {each.step} {each.configuration}" for each in trials}
        values, failed = finished(self.run, "searched", searched, keys)
        if failed:
            raise RuntimeError("; ".join(failed.values()))
        return {
            (each.step, each.configuration): SearchedPipeline(found_of(values[each]["best"]), values[each]["printed_s"])
            for each in trials
        }

    def memory(self, step: str) -> dict[tuple[str, str, str], int]:
        """The least bytes of a device, by (configuration, what is kept of trained tensors, of activations)."""
        trials = memory_trials(step, (self.machine.accelerator, self.machine.network))
        keys = {each: f"memory {step} {each.configuration} {each.state} {each.activations}" for each in trials}
        values, failed = finished(self.run, "memory", needed_bytes, keys)
        if failed:
            raise RuntimeError("; ".join(failed.values()))
        return {(each.configuration, each.state, each.activations): values[each] for each in trials}

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        return mesh_of(self.machine.mesh)

    @property
    def memory_bytes(self) -> int:
        """Of each device."""
        return chip(self.machine.accelerator).hbm_bytes


def _outcome(document: Mapping[str, Any]) -> Outcome:
    best, published = (None if document[key] is None else CheckedPlan(**document[key]) for key in ("best", "published"))
    return Outcome(best, published, document["seconds"])


def split_text(plan: CheckedPlan, names: Sequence[str]) -> str:
    """The dimension that the arguments ``names`` are split along, -1 for whole; several if they are not alike."""
    texts = dict.fromkeys("/".join(map(str, plan.arguments[name])) for name in names)
    return " or ".join(sorted(texts))


def is_as_published(plan: CheckedPlan, names: Sequence[str], dim: int) -> bool:
    """Whether all of ``names`` are split along ``dim`` on one axis, the same, and nowhere else."""
    layouts = [plan.arguments[name] for name in names]
    split = [layout for layout in layouts if set(layout) - {WHOLE}]
    if dim == WHOLE:
        return not split
    return split == layouts and all(layout == layouts[0] for layout in layouts) and set(layouts[0]) <= {WHOLE, dim}

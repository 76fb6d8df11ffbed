"""Strategy ``pipeline``: the forward part of a training step in stages, as ``dse parallel`` answers it."""

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dse.graph.step import StepGraph
from dse.parallel.inputs import device_of, document_of_step, named_step, roles_note
from dse.parallel.options import MICROBATCHES, ParallelOptions, memory_bytes_of
from dse.parallel.pipeline.baselines import even_plan
from dse.parallel.pipeline.exact import Answer, solve
from dse.parallel.pipeline.exchange import profiled_graph
from dse.parallel.pipeline.formats import PipelineMetrics, metrics, plan_of, solution_document
from dse.parallel.pipeline.length import faults as plan_faults
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.memory import min_memory_bytes
from dse.parallel.pipeline.methods import METHODS, PipelineMethod, exact
from dse.parallel.pipeline.pipedream import pipedream_text
from dse.parallel.pipeline.piper import piper_text
from dse.parallel.pipeline.problem import RADIUS, DeviceCutting, PipelinePlan, PipelineProblem, Profile, StateName
from dse.parallel.pipeline.profiled_graph import graph_of_source, source_of_graph
from dse.parallel.pipeline.profiling import StepProfile, first_results, profile_of
from dse.parallel.pipeline.question import PipelineQuestion, Source
from dse.parallel.pipeline.view import view as view
from dse.parallel.problem import Device
from dse.parallel.shortfall import lacking_memory
from dse.problem import Posed, result_of
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Objective, Result, digest
from dse.run.directory import write_bytes
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from hardware.chips import chip
from hardware.inputs import fail, nearest, validate
from hardware.network import Network
from hardware.network_specs import network

PipelinePosed = Posed[ParallelOptions, Any]

_COMMAND = "dse parallel"

_PROVEN: Remembered[Answer] = Remembered(8)
_LACKING: Remembered[Infeasibility] = Remembered(4, is_mutable=True)
"""Of the last questions that were checked."""


def posed(options: ParallelOptions, *, at_most: bool = False) -> PipelinePosed:
    """The profile of the step that the options name, and the machine.

    Args:
        options: of the command.
        at_most: whether fewer stages are requested where there cannot be as many.

    Raises:
        InputError: options that contradict each other, files that are malformed, or more stages than there can be.
    """
    devices = _devices(options)
    chosen = chip(options.accelerator)
    if options.method == "linkage":
        raise fail(_COMMAND, "--method", "linkage", "applies only to --strategy sharding")
    memory_bytes = memory_bytes_of(options, chosen.hbm_bytes)
    joined = network(options.network or chosen.network).spanning(devices)
    source, profile, state_factor, step = _read(options, device_of(chosen, options.f32_products))
    stages = _stages(options, devices, joined, source)
    if at_most:
        stages = min(stages, max(1, int(np.count_nonzero(profile.variables))))
    _require_variables(options, stages, profile)
    problem = PipelineProblem(
        profile,
        joined,
        devices,
        stages,
        options.microbatches or MICROBATCHES,
        memory_bytes,
        state_factor,
        options.recompute,
    )
    cutting = _device_cutting(options, devices, stages)
    question = PipelineQuestion(source, problem, cutting, chosen.name, step)
    document = {
        "step": source.document,
        "given": source.given,
        "pipeline": _problem_document(problem),
        "device_cuts": cutting,
    }
    goal = Objective(name="length_s", value=None, unit="s", sense="min")
    return Posed(options, question, source.name, document, goal)


def _read(options: ParallelOptions, device: Device) -> tuple[Source, Profile, float, StepProfile | None]:
    """What is cut, its profile, the bytes that a device keeps for each byte of trained tensors, and the step."""
    profiled = profiled_graph(options.step)
    if profiled is not None:
        if options.variables is not None:
            raise fail(
                _COMMAND,
                "--variables",
                options.variables,
                "must not be given with a profile, which has no named variables",
            )
        path = os.fsdecode(options.step)
        if not any(node.weight_bytes for node in profiled.nodes):
            raise fail(path, "", "", "must have a node with parameters, because every stage needs one")
        factor = {"weights": 1.0, "gradients": 2.0, "optimizer": 4.0}[options.state]
        notes = ["The input is a profile: times come from the file, and the optimizer is assumed to be Adam."]
        return (*source_of_graph(profiled, Path(path).stem, notes, path), factor, None)
    where, graph, _ = named_step(options, device)
    of = profile_of(graph, device, where)
    return source_of(graph, of), of.profile, state_factor_of(graph, options.state), of


def source_of(graph: StepGraph, of: StepProfile) -> Source:
    """A step with its profile as what is cut."""
    notes = [roles_note(graph), *graph.notes]
    if of.unused:
        more = f" and {len(of.unused) - 1} more" if len(of.unused) > 1 else ""
        notes.append(f"Trained tensors in no stage, because the loss does not depend on them: {of.unused[0]}{more}.")
    return Source(
        graph.name,
        tuple(first_results(graph, of.points)),
        tuple(graph.operations[point].label for point in of.points),
        of.update_s,
        tuple(notes),
        document_of_step(graph),
        of.edges,
        framework=graph.framework,
    )


def state_factor_of(graph: StepGraph, state: StateName) -> float:
    """Bytes that a device keeps for each byte of trained tensors; the optimizer's state as large as the step has it."""
    if state != "optimizer":
        return {"weights": 1.0, "gradients": 2.0}[state]
    sizes = {"parameter": 0, "state": 0}
    for argument in graph.arguments:
        value = graph.values[argument.value]
        if argument.role in sizes and value.dims:
            sizes[argument.role] += value.size_bytes
    return 2.0 + sizes["state"] / sizes["parameter"]


def method_of(options: ParallelOptions) -> str:
    """The method that ``auto`` stands for."""
    return "exact" if options.method == "auto" else options.method


def answer(posed: PipelinePosed, question: PipelineQuestion, run: Run) -> Result:
    """The best plan by the chosen method, with its proof or bound."""
    started = time.perf_counter()
    _emit(posed.options, question)
    name = method_of(posed.options)
    best = _answered(_method(name, run), question, run)
    problem = question.problem
    if best.plan is not None:
        violations = plan_faults(problem, best.plan)
        length_s = length(problem, best.plan).length_s
        if violations or length_s != best.length_s:
            rule = f"length must be {length_s} s, but is {best.length_s} s"
            raise FailedCheckError("; ".join(violations) or rule)
    is_infeasible = best.plan is None and math.isinf(best.bound_s)
    return result_of(
        "parallel",
        posed,
        value=None if best.plan is None else best.length_s,
        bound=None if is_infeasible else best.bound_s,
        solution=None if best.plan is None else solution_document(question, best.plan),
        metrics=None if best.plan is None else metrics(question, best.plan),
        infeasibility=_infeasibility(question) if is_infeasible else None,
        evaluations=best.nodes,
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method=name,
    )


def _emit(options: ParallelOptions, question: PipelineQuestion) -> None:
    """Write the profile for other planners, where the options ask for it."""
    graph = graph_of_source(question.source, question.problem.profile)
    if options.emit_pipedream is not None:
        write_bytes(Path(options.emit_pipedream), pipedream_text(graph).encode())
    if options.emit_piper is not None:
        write_bytes(Path(options.emit_piper), piper_text(graph, question.problem).encode())


def _method(name: str, run: Run) -> PipelineMethod:
    methods = {**METHODS, **run.methods}
    if name not in methods:
        raise fail(_COMMAND, "--method", name, f"must be one of {', '.join(methods)}", nearest(name, methods))
    return methods[name]


def _answered(method: PipelineMethod, question: PipelineQuestion, run: Run) -> Answer:
    """What the method finds; where it proves nothing, with the bound of the exact search.

    Where it was stopped before it found a plan, that of even stages, if it has no faults.
    """
    context = question.context(run.seed, run.stop)
    best = method(context)
    if best.plan is None and run.stop() is not None:
        even = even_plan(question.problem)
        if not plan_faults(question.problem, even):
            best = replace(best, plan=even, length_s=length(question.problem, even).length_s)
    if best.bound_s > 0:
        return best
    proof = solve(question.problem, context.device_cuts(), run.stop, best.plan)
    return replace(best, bound_s=proof.bound_s)


def faults(result: Result, question: PipelineQuestion) -> list[str]:
    """The plan's own rules, its times and bytes by their definition; the bound is proven again."""
    problem, context = question.problem, question.context()
    if not result.solution:
        unasked = differences("metrics", result.metrics, {})
        if result.status not in ("infeasible", "unknown", "interrupted"):
            return [*unasked, "a plan must be given"]
        if result.status != "infeasible":
            return unasked + _bound_faults(result, question, None)
        if _proven(question, None).plan is not None:
            return [*unasked, "status must not be infeasible, because a plan fits"]
        stated = None if result.infeasibility is None else result.infeasibility.model_dump()
        lacking = _LACKING.get(Same(question), lambda: _infeasibility(question))
        return unasked + differences("infeasibility", stated, lacking.model_dump())
    validate(PipelineMetrics, result.metrics, "result: metrics")
    plan = plan_of(question, result.solution, "result")
    if broken := plan_faults(problem, plan):
        return broken
    if plan.device_cuts not in set(context.device_cuts()):
        cuts = ", ".join(map(str, plan.device_cuts))
        return [f"device_cuts must be allowed by --device-cuts {question.device_cutting}, but got {cuts}"]
    value = length(problem, plan).length_s
    violations = []
    claimed = result.objective.value
    if claimed is None or not math.isclose(claimed, value, rel_tol=PROOF_TOLERANCE):
        violations.append(f"objective.value must be {value}, but got {claimed}")
    violations += _bound_faults(result, question, plan)
    return violations + differences("metrics", result.metrics, metrics(question, plan))


def _bound_faults(result: Result, question: PipelineQuestion, start: PipelinePlan | None) -> list[str]:
    """Whether the bound is proven again, by a search that ends where it is."""
    if result.bound is None:
        return []
    enough_s = math.inf if result.status == "optimal" else result.bound / (1 + 2 * PROOF_TOLERANCE)
    proof = _proven(question, start, enough_s, result.method == "exact")
    if result.bound <= proof.bound_s * (1 + 2 * PROOF_TOLERANCE):
        return []
    return [f"bound must be at most the proven {proof.bound_s}, but got {result.bound}"]


def _proven(
    question: PipelineQuestion, start: PipelinePlan | None, enough_s: float = math.inf, is_exact: bool = True
) -> Answer:
    """What no plan is shorter than, or ``enough_s``, where that is proven sooner.

    A search that was stopped is repeated as it was, without the plan that it found later: with another one to start
    from, it goes other ways, which may take longer.
    """
    context = question.context()

    def proof() -> Answer:
        if not math.isfinite(enough_s):
            return solve(question.problem, context.device_cuts(), start=start)
        if is_exact:
            return exact(context, enough_s)
        return solve(question.problem, context.device_cuts(), start=start, enough_s=enough_s)

    return _PROVEN.get((Same(question), start, enough_s, is_exact), proof)


def _infeasibility(question: PipelineQuestion) -> Infeasibility:
    """How many bytes the plan that needs the fewest lacks."""
    problem = question.problem
    needed = min_memory_bytes(problem, question.context().device_cuts())
    limit = problem.memory_bytes or 0
    levers = ["more stages", "more devices", *([] if problem.recompute else ["--recompute"])]
    devices = f"some of {problem.devices} devices"
    sentence = (
        f"A pipeline of {problem.stages} stages needs at least {{needed}} per device on {devices}, but a "
        f"device has {{limit}}"
    )
    return lacking_memory(sentence, needed, limit, levers)


def _devices(options: ParallelOptions) -> int:
    text = options.mesh
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MAX_DEVICES):
        rule = f"must be a number of devices from 1 to {_MAX_DEVICES}, without axes, with --strategy {options.strategy}"
        raise fail(_COMMAND, "--mesh", text, rule)
    return int(text)


_MAX_DEVICES = 4096


def _stages(options: ParallelOptions, devices: int, joined: Network, source: Source) -> int:
    """The number of stages, as far as the devices allow it."""
    server = joined.node_accelerators
    if server and devices % server:
        raise fail(
            _COMMAND,
            "--mesh",
            devices,
            f"must be a multiple of {server}, the number of devices per server of {joined.name}",
        )
    own = max(2, devices // server if server else 2) if source.given is None else len(source.given) + 1
    stages = options.stages or own
    if stages > devices and options.stages is None:
        rule = f"must be at least {stages}, the default of --stages"
        raise fail(_COMMAND, "--mesh", devices, rule)
    if stages > devices:
        raise fail(_COMMAND, "--stages", stages, f"must be at most {devices}, the number of devices")
    return stages


MAX_WAYS = 50_000
"""To cut the devices: each is bounded on its own."""


def _device_cutting(options: ParallelOptions, devices: int, stages: int) -> DeviceCutting:
    """How devices are cut: as asked, or the freest way that leaves at most :data:`MAX_WAYS`."""
    ways: dict[DeviceCutting, int] = {
        "free": math.comb(devices - 1, stages - 1),
        "near": (2 * RADIUS + 1) ** (stages - 1),
        "equal": 1,
    }
    freest = next(each for each, count in ways.items() if count <= MAX_WAYS)
    cutting = freest if options.device_cuts == "auto" else options.device_cuts
    if cutting != "free" and devices % stages and options.stages is None:
        rule = f"must be a multiple of {stages}, the default of --stages, with --device-cuts {cutting}"
        raise fail(_COMMAND, "--mesh", devices, rule)
    if cutting != "free" and devices % stages:
        rule = f"must divide {devices}, the number of devices, with --device-cuts {cutting}"
        raise fail(_COMMAND, "--stages", stages, rule)
    if ways[cutting] > MAX_WAYS:
        rule = (
            f"allows {ways[cutting]:,} ways to cut {devices} devices into {stages} stages, but at most "
            f"{MAX_WAYS:,} are supported"
        )
        raise fail(_COMMAND, "--device-cuts", cutting, rule)
    return cutting


def _require_variables(options: ParallelOptions, stages: int, profile: Profile) -> None:
    count = int(np.count_nonzero(profile.variables))
    if stages > count and options.stages is None:
        rule = f"must be given and at most {count}, because each stage must read a trained tensor (default: {stages})"
        raise fail(_COMMAND, "--stages", "", rule)
    if stages > count:
        rule = f"must be at most {count}, the number of instructions that read a trained tensor"
        raise fail(_COMMAND, "--stages", stages, rule)


def _problem_document(problem: PipelineProblem) -> dict[str, Any]:
    """Everything of the problem but the step, in JSON types; of the profile its digest."""
    profile = problem.profile
    arrays = {
        name: getattr(profile, name).tolist()
        for name in ("forward_s", "backward_s", "cut_bytes", "weight_bytes", "variables", "stash_bytes")
    }
    shared = [[list(each.names), each.weight_bytes, list(each.readers)] for each in profile.shared]
    return {
        "profile": digest({**arrays, "shared": shared}),
        "network": repr(problem.network),
        "devices": problem.devices,
        "stages": problem.stages,
        "microbatches": problem.microbatches,
        "memory_bytes": problem.memory_bytes,
        "state_factor": problem.state_factor,
        "recompute": problem.recompute,
    }

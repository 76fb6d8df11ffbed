"""The independent checker of co-search answers.

Everything is recomputed from the problem: the area from the formula, every operator priced on the one architecture,
every schedule and the placement through their own checkers, and the throughput from the batch time. Nothing here uses
a solver or a bound. The model's graph and the operators' latencies and energies are part of the problem's definition
and come from the same builder and estimator as in the search. That no other architecture is better is not proven again.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from dse.codesign.check_energy import checked_energy
from dse.codesign.formats import architecture_solution
from dse.codesign.layer_problem import schedule_problem
from dse.codesign.modern.problem import ModernProblem
from dse.codesign.problem import CodesignProblem, TrainingJob
from dse.graph.operator_graph import Layer, ModelGraph
from dse.placement import check as placement_check
from dse.placement.formats import placement_from_document
from dse.placement.problem import LayerGraph, PlacementLayer, PlacementProblem
from dse.placement.timeline import has_timeline, timeline
from dse.schedule import check as schedule_check
from dse.schedule.formats import schedule_from_document
from hardware.area import AreaModel, area_model
from hardware.machines import Machines
from hardware.space import template_machines
from hardware.units import MIB, UM2_PER_MM2, bytes_from_gib, gib_from_bytes

_TOLERANCE = 1e-9


def violations(problem: CodesignProblem, solution: dict[str, Any], path: str | Path = "result") -> list[str]:
    """Every way in which ``solution`` (of a result in ``path``) breaks the problem's rules; empty for a valid answer.

    Args:
        problem: the jobs and the space.
        solution: of the form of :class:`dse.codesign.documents.Solution`.
        path: names the result in errors.

    Raises:
        InputError: the solution names layers or operators that the models do not have.
    """
    if problem.fixed is not None:
        faults = fixed_faults(problem.fixed.machines, solution["architecture"])
    else:
        faults = architecture_faults(problem, solution["architecture"])
    names = {job.name for job in problem.jobs}
    if set(solution["models"]) != names:
        faults.append(f"models must be {sorted(names)}, but got {sorted(solution['models'])}")
    if faults:
        return faults
    sizes = {solution["models"][name]["hbm_gb"] for name in names}
    if len(sizes) > 1:
        faults.append(f"all models must have the same HBM size, but got {sorted(sizes)} GB")
    machine = _machine(problem, solution["architecture"])
    for job in problem.jobs:
        plan_faults = _plan_faults(job, machine, solution["models"][job.name], path)
        faults += [f"{job.name}: {fault}" for fault in plan_faults]
    return faults


def _plan_faults(job: TrainingJob, machine: Machines, plan: dict[str, Any], path: str | Path) -> list[str]:
    """What is wrong with one model's plan on the machine."""
    faults = choice_faults(job, plan)
    if faults:
        return faults
    graph = job.workload.graph(plan["microbatch"], plan["tensor"], job.recipe)
    kinds = [layer.kind for layer in graph.distinct_layers]
    if set(plan["layers"]) != set(kinds):
        return [f"layers must be {sorted(kinds)}, but got {sorted(plan['layers'])}"]
    latencies: dict[str, dict[str, float]] = {}
    for layer in graph.distinct_layers:
        latencies[layer.kind], layer_faults = _layer_faults(job, machine, layer, plan["layers"][layer.kind], path)
        faults += layer_faults
    placement_problem = _placement_problem(job, graph, plan, latencies)
    stated = {key: plan[key] for key in ("tensor", "data", "stages")}
    placement = placement_from_document(placement_problem, stated, path, plan["batch_s"])
    faults += placement_check.violations(placement_problem, placement)
    used = placement.data * sum(stage.accelerators for stage in placement.stages)
    for key, value in {"pipeline": len(placement.stages), "accelerators_used": used}.items():
        if plan[key] != value:
            faults.append(f"{key} must be {value}, but got {plan[key]}")
    expected = job.global_batch / plan["batch_s"]
    if not math.isclose(expected, plan["throughput_per_s"], rel_tol=_TOLERANCE):
        faults.append(
            f"throughput_per_s must be global batch / batch_s = {expected}, but got {plan['throughput_per_s']}"
        )
    return faults


def fixed_faults(machines: Machines, stated: dict[str, Any]) -> list[str]:
    """Sizes that are not those of the given accelerator."""
    return [
        f"architecture.{key} must be {value}, but got {stated[key]}"
        for key, value in architecture_solution(machines, 0).items()
        if stated[key] != value
    ]


_SIZES = ("tensor_cores", "vector_cores", "core_width", "core_depth", "global_buffer_bytes")


def architecture_faults(problem: CodesignProblem | ModernProblem, stated: dict[str, Any]) -> list[str]:
    """Sizes outside the space, an area that is not the formula's, or one outside the budget (paper Table 1)."""
    rules, space = area_model(), problem.space
    offered = {
        "tensor_cores": space.tensor_cores.values,
        "vector_cores": space.vector_cores.values,
        "core_width": space.core_widths.values,
        "core_depth": space.core_depths.values,
        "global_buffer_bytes": [size * MIB for size in space.global_buffer_mib.values],
    }
    faults = [
        f"architecture.{key} must be one of {list(values)}, but got {stated[key]}"
        for key, values in offered.items()
        if stated[key] not in values
    ]
    if stated["vector_lanes"] != stated["core_width"]:
        faults.append(f"architecture.vector_lanes must equal the core width ({stated['core_width']})")
    if faults:
        return faults
    area_mm2 = _area_mm2(rules, stated)
    budget_mm2 = problem.area_budget_mm2 or rules.reference_um2 / UM2_PER_MM2
    single = min(stated["tensor_cores"], stated["vector_cores"]) == 1
    share = None if single else space.min_share_of_budget
    min_mm2 = 0.0 if share is None else share.value * budget_mm2
    least, each = rules.l2_minimum_bytes.value, rules.l2_bytes_per_element.value
    width, depth = stated["core_width"], stated["core_depth"]
    for key, elements in (("tensor_l2_bytes", width * depth), ("vector_l2_bytes", width)):
        if stated[key] != max(least, each * elements):
            faults.append(f"architecture.{key} must be {max(least, each * elements)}, but got {stated[key]}")
    if not math.isclose(area_mm2, stated["area_mm2"], rel_tol=_TOLERANCE):
        faults.append(f"architecture.area_mm2 must be {area_mm2}, but got {stated['area_mm2']}")
    if not min_mm2 * (1 - _TOLERANCE) <= area_mm2 <= budget_mm2 * (1 + _TOLERANCE):
        faults.append(f"the area must be in [{min_mm2}, {budget_mm2}] mm², but is {area_mm2}")
    return faults


def _area_mm2(rules: AreaModel, stated: dict[str, Any]) -> float:
    """The area formula (facts of the template, paper appendix C.1), term by term."""
    width, depth = stated["core_width"], stated["core_depth"]
    least, each = rules.l2_minimum_bytes.value, rules.l2_bytes_per_element.value
    tensor_l2_um2 = _sram_um2(rules, max(least, each * width * depth))
    vector_l2_um2 = _sram_um2(rules, max(least, each * width))
    tensor_um2 = width * depth * rules.tensor_element_um2.value + tensor_l2_um2
    vector_um2 = width * rules.vector_lane_um2.value + vector_l2_um2
    buffer_um2 = _sram_um2(rules, stated["global_buffer_bytes"])
    total_um2 = stated["tensor_cores"] * tensor_um2 + stated["vector_cores"] * vector_um2 + buffer_um2
    return float(total_um2 / UM2_PER_MM2)


def _sram_um2(rules: AreaModel, size_bytes: int) -> float:
    """Area of one memory: that of the tables, or on the line between its neighbours on log-log paper."""
    known = rules.l2_um2.values | {size * MIB: area for size, area in rules.global_buffer_um2.values.items()}
    if size_bytes in known:
        return known[size_bytes]
    below, above = max(s for s in known if s < size_bytes), min(s for s in known if s > size_bytes)
    slope = math.log(known[above] / known[below]) / math.log(above / below)
    return float(known[below] * (size_bytes / below) ** slope)


def _interface_mm2(problem: CodesignProblem, machine: Machines) -> float:
    """PHYs and controllers of HBM and of every level of the network, term by term; real chips are stated with them."""
    if not problem.cost_model.hardware.interfaces_take_area.value or machine.process_nm is not None:
        return 0.0
    rules, level = area_model(), problem.jobs[0].network
    rates = [(rules.hbm_interface, machine.hbm_bytes_per_s)]
    while True:
        sharing = level.inner_accelerators if level.shared else 1
        rates.append((rules.network_interface, level.bytes_per_s / sharing))
        if level.inner is None:
            break
        level = level.inner
    total_mm2 = 0.0
    for interface, bytes_per_s in rates:
        units = bytes_per_s / interface.bytes_per_s.value
        transistors = units * interface.controller_transistors.value
        total_mm2 += units * interface.phy_mm2.value + transistors / rules.transistors_per_mm2.value
    return total_mm2


def _machine(problem: CodesignProblem, stated: dict[str, Any]) -> Machines:
    if problem.fixed is not None:
        return problem.fixed.machines
    sizes = [np.array([stated[key]]) for key in _SIZES]
    tensor_cores, vector_cores, width, depth, buffer_bytes = sizes
    return template_machines(tensor_cores, vector_cores, width, depth, buffer_bytes // MIB, model=problem.cost_model)


def choice_faults(job: TrainingJob, plan: dict[str, Any]) -> list[str]:
    """Choices of a plan that were not offered."""
    offered: dict[str, tuple[Any, ...]] = {
        "microbatch": job.microbatch_sizes,
        "tensor": job.tensor_parallel,
        "hbm_gb": tuple(size / bytes_from_gib(1) for size in job.hbm_bytes),
    }
    return [
        f"{key} must be one of {list(values)}, but got {plan[key]}"
        for key, values in offered.items()
        if plan[key] not in values
    ]


def _layer_faults(
    job: TrainingJob, machine: Machines, layer: Layer, stated: dict[str, Any], path: str | Path
) -> tuple[dict[str, float], list[str]]:
    """The makespan of each part of one layer as its schedule gives it, and what is wrong with the schedules."""
    faults: list[str] = []
    makespans = {}
    for part, operators in (("forward", layer.forward), ("backward", layer.backward), ("update", layer.update)):
        where = f"{layer.kind} {part}"
        posed = schedule_problem(where, operators, machine, 0, job.network)
        schedule = schedule_from_document(posed, {"operators": stated[part]["operators"]}, path)
        faults += [f"{where}: {fault}" for fault in schedule_check.violations(posed, schedule)]
        makespans[part] = max(schedule.finish_s, default=0.0)
        if not 0 <= stated[part]["bound_s"] <= makespans[part] * (1 + _TOLERANCE):
            faults.append(f"{where}: bound_s must be in [0, {makespans[part]}], but got {stated[part]['bound_s']}")
        if not math.isclose(makespans[part], stated[part]["makespan_s"], rel_tol=_TOLERANCE):
            faults.append(f"{where}: makespan_s must be {makespans[part]}, but got {stated[part]['makespan_s']}")
    return makespans, faults


def _placement_problem(
    job: TrainingJob, graph: ModelGraph, plan: dict[str, Any], latencies: dict[str, dict[str, float]]
) -> PlacementProblem:
    training = job.cost_model.training
    layers = tuple(
        PlacementLayer(
            name=name,
            forward_s=latencies[layer.kind]["forward"],
            backward_s=latencies[layer.kind]["backward"],
            weight_bytes=layer.weight_bytes + layer.frozen_bytes / job.cost_model.state_factor,
            activation_bytes=layer.activation_bytes,
            sliced=layer.sliced,
            update_s=latencies[layer.kind]["update"],
        )
        for name, layer in zip(graph.names, graph.layers, strict=True)
    )
    return PlacementProblem(
        name=job.name,
        accelerators=job.accelerators,
        microbatches=job.global_batch // plan["microbatch"],
        hbm_bytes=bytes_from_gib(plan["hbm_gb"]),
        network_bytes_per_s=job.network_bytes_per_s,
        recompute=plan["recompute"],
        state_factor=job.cost_model.state_factor,
        gradient_sync_factor=training.gradient_sync_factor.value,
        tensor_parallel={plan["tensor"]: LayerGraph(layers, tuple((u, v, float(b)) for u, v, b in graph.edges))},
        pipeline_schedule=job.pipeline_schedule,
        node_accelerators=job.network.node_accelerators,
        node_bytes_per_s=job.node_bytes_per_s,
        recompute_granularity=training.recompute_granularity.name,
    )


def answer_metrics(problem: CodesignProblem, solution: dict[str, Any], machines: Machines) -> dict[str, Any]:
    """What a result says about its answer, from the solution alone.

    ``score``: the objective. ``models``: for each its part in the objective (``value``), ``model_flops_utilisation``
    (PaLM, appendix B: model FLOPs a second over the peak of all accelerators that are bought) and ``peak_memory_gb``
    (of the fullest stage), and ``simulated_batch_s``: the batch with every pass, gradient synchronisation and optimizer
    step in time (:mod:`dse.placement.timeline`), or the formula's where that would be too long; ``power_w`` (average of
    one accelerator) and ``joules_per_sample`` (of all of them; :mod:`dse.codesign.check_energy`).
    ``architectures_in_space``: the space. ``interface_mm2``: what the die has in addition to ``area_mm2``; per mm²
    counts both.
    """
    stated = solution["architecture"]
    machine = _machine(problem, stated)
    models = {job.name: _plan_metrics(problem, job, machine, solution["models"][job.name]) for job in problem.jobs}
    values = np.array([[models[job.name]["value"]] for job in problem.jobs])
    budget_mm2 = problem.area_budget_mm2 or float(machines.area_mm2.max())
    return {
        "score": float(problem.objective.score(values)[0]),
        "models": models,
        "architectures_in_space": len(machines),
        "area_budget_used": stated["area_mm2"] / budget_mm2,
        "interface_mm2": _interface_mm2(problem, machine),
    }


def _plan_metrics(
    problem: CodesignProblem, job: TrainingJob, machine: Machines, plan: dict[str, Any]
) -> dict[str, Any]:
    """What one model's plan is worth: see :func:`answer_metrics`."""
    graph = job.workload.graph(plan["microbatch"], plan["tensor"], job.recipe)
    makespans = {
        kind: {part: schedule["makespan_s"] for part, schedule in layer.items()}
        for kind, layer in plan["layers"].items()
    }
    posed = _placement_problem(job, graph, plan, makespans)
    stated = {key: plan[key] for key in ("tensor", "data", "stages")}
    placement = placement_from_document(posed, stated, "result", plan["batch_s"])
    count = len(placement.stages)
    fullest_bytes = max(
        placement_check.stage_memory_bytes(
            posed, posed.tensor_parallel[placement.tensor], stage, count - number, placement.data
        )
        for number, stage in enumerate(placement.stages)
    )
    in_time = timeline(posed, placement) if has_timeline(posed, placement) else None
    peak_flops = job.accelerators * float(machine.peak_flops[0])
    throughput = plan["throughput_per_s"]
    hbm_bytes = int(posed.hbm_bytes)
    choices = plan["microbatch"], hbm_bytes, plan["recompute"]
    energy = checked_energy(job, machine, placement, choices, machine.energy)
    die_mm2 = float(machine.area_mm2[0]) + _interface_mm2(problem, machine)
    per = {"throughput": 1.0, "per-watt": energy.power_w * job.accelerators, "per-mm2": die_mm2}
    ends = [checked_energy(job, machine, placement, choices, end).power_w for end in machine.energy_range or ()]
    return {
        "value": throughput / per[problem.objective.per],
        "power_w": energy.power_w,
        **({"power_interval_w": ends} if ends else {}),
        "joules_per_sample": energy.joules_per_sample,
        "model_flops_utilisation": throughput * graph.flops_per_sample / peak_flops,
        "peak_memory_gb": gib_from_bytes(fullest_bytes),
        "simulated_batch_s": plan["batch_s"] if in_time is None else in_time.batch_s,
    }

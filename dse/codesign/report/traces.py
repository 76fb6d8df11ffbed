"""A co-search answer in time, as Chrome traces that Perfetto opens: each model's pipeline, and the operators of its
layers on the cores of the accelerator.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.job_placements import Choice
from dse.codesign.evaluation.pricing import LayerLatencies
from dse.codesign.layer_problem import schedule_problem
from dse.codesign.problem import CodesignProblem
from dse.graph.operator_graph import ModelGraph
from dse.placement.formats import placement_from_document
from dse.placement.timeline import has_timeline, timeline
from dse.report.trace_events import Trace, merged, pipeline_trace, schedule_trace
from dse.results.result import Result
from dse.schedule.formats import schedule_from_document
from hardware.machines import Machines
from hardware.units import bytes_from_gib

FOLDER = "traces"
"""Of a run directory: holds ``MODEL.pipeline.json`` and ``MODEL.operators.json``."""

_PARTS = ("forward", "backward", "update")

Plan = Mapping[str, Any]
"""One model's part of a result's solution."""


def traces(problem: CodesignProblem, machine: Machines, result: Result) -> Mapping[str, str]:
    """The traces of every model of the answer by file; ``machine`` is the answer's architecture alone.

    A pipeline of more passes than a timeline holds is left out.
    """
    files = {}
    for job in problem.jobs:
        plan = result.solution["models"][job.name]
        evaluator = Evaluator(job, machine)
        pipeline = _pipeline(evaluator, plan)
        if pipeline is not None:
            files[f"{FOLDER}/{job.name}.pipeline.json"] = json.dumps(pipeline)
        files[f"{FOLDER}/{job.name}.operators.json"] = json.dumps(_operators(evaluator, plan))
    return files


def _graph(evaluator: Evaluator, plan: Plan) -> ModelGraph:
    return evaluator.graphs[plan["microbatch"], plan["tensor"]]


def _pipeline(evaluator: Evaluator, plan: Plan) -> Trace | None:
    """The pipeline in time, from the makespans that the solution states."""
    layers = _graph(evaluator, plan).distinct_layers
    makespans = [np.array([[plan["layers"][layer.kind][part]["makespan_s"]] for layer in layers]) for part in _PARTS]
    choice = Choice(plan["microbatch"], plan["tensor"], bytes_from_gib(plan["hbm_gb"]), plan["recompute"])
    posed = evaluator.placement_problem(choice, LayerLatencies(*makespans))
    stated = {key: plan[key] for key in ("tensor", "data", "stages")}
    placement = placement_from_document(posed, stated, "result", plan["batch_s"])
    return pipeline_trace(posed, placement, timeline(posed, placement)) if has_timeline(posed, placement) else None


def _operators(evaluator: Evaluator, plan: Plan) -> Trace:
    """The operators of every distinct layer in time, a process each."""
    parts = []
    for layer in _graph(evaluator, plan).distinct_layers:
        for part, operators in (("forward", layer.forward), ("backward", layer.backward), ("update", layer.update)):
            stated = {"operators": plan["layers"][layer.kind][part]["operators"]}
            name = f"{layer.kind} {part}"
            posed = schedule_problem(name, operators, evaluator.machines, 0, evaluator.job.network)
            parts.append(schedule_trace(posed, schedule_from_document(posed, stated, "result")))
    return merged(parts)

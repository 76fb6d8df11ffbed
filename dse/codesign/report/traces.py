"""A co-search answer in time, as Chrome traces that Perfetto opens: each model's pipeline, and the operators of its
layers on the cores of the accelerator.
"""

import json
from collections.abc import Mapping

from dse.codesign.layer_problem import schedule_problem
from dse.codesign.problem import CodesignProblem
from dse.codesign.report.card import StatedPlan
from dse.placement.pipeline_trace import pipeline_trace
from dse.placement.timeline import has_timeline, timeline
from dse.report.trace_events import TraceEvents, merged
from dse.results.result import Result
from dse.schedule.formats import schedule_from_document
from dse.schedule.schedule_trace import schedule_trace
from hardware.machines import Machines

FOLDER = "traces"
"""Of a run directory: holds ``MODEL.pipeline.json`` and ``MODEL.operators.json``."""


def traces(problem: CodesignProblem, machine: Machines, result: Result) -> Mapping[str, str]:
    """The traces of every model of the answer by file; ``machine`` is the answer's architecture alone.

    A pipeline of more passes than a timeline holds is left out.
    """
    files = {}
    for job in problem.jobs:
        stated = StatedPlan(job, machine, result.solution["models"][job.name])
        if has_timeline(stated.problem, stated.placement):
            times = timeline(stated.problem, stated.placement)
            files[f"{FOLDER}/{job.name}.pipeline.json"] = json.dumps(
                pipeline_trace(stated.problem, stated.placement, times)
            )
        files[f"{FOLDER}/{job.name}.operators.json"] = json.dumps(_operators(stated))
    return files


def _operators(stated: StatedPlan) -> TraceEvents:
    """The operators of every distinct layer in time, a process each."""
    evaluator, parts = stated.evaluator, []
    for layer in stated.graph.distinct_layers:
        for part, operators in (("forward", layer.forward), ("backward", layer.backward), ("update", layer.update)):
            entries = {"operators": stated.document["layers"][layer.kind][part]["operators"]}
            name = f"{layer.kind} {part}"
            posed = schedule_problem(name, operators, evaluator.machines, 0, evaluator.job.network)
            parts.append(schedule_trace(posed, schedule_from_document(posed, entries, "result")))
    return merged(parts)

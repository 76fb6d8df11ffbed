"""The plan of each model at a glance: diagram, time of a batch by cause, memory of the fullest accelerator."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.job_placements import Choice
from dse.codesign.evaluation.pricing import LayerLatencies
from dse.codesign.problem import CodesignProblem, TrainingJob
from dse.codesign.report.table import number, score_text
from dse.graph.operator_graph import Layer, ModelGraph
from dse.placement.breakdown import batch_time, memory_breakdown, plan, time_breakdown
from dse.placement.formats import placement_from_document
from dse.placement.problem import Placement, PlacementProblem
from dse.report.units import memory_text, time_text
from dse.report.view import Card, Share
from dse.results.result import Result
from dse.schedule.busy_classes import LABELS, Interval, busy_s, shares
from hardware.machines import Machines
from hardware.operations import Collective, core_kind
from hardware.units import bytes_from_gib

PlanDocument = Mapping[str, Any]
"""One model's part of a result's solution."""

PARTS = ("forward", "backward", "update")


class StatedPlan:
    """One model's plan of a result, with the problem that it solves; ``machine`` is the answer's architecture alone."""

    def __init__(self, job: TrainingJob, machine: Machines, document: PlanDocument) -> None:
        self.evaluator, self.document = Evaluator(job, machine), document

    @property
    def graph(self) -> ModelGraph:
        """The model at the plan's microbatch and width."""
        return self.evaluator.graphs[self.document["microbatch"], self.document["tensor"]]

    @cached_property
    def problem(self) -> PlacementProblem:
        """The placement problem, from the makespans that the solution states."""
        stated, layers = self.document, self.graph.distinct_layers
        makespans = [
            np.array([[stated["layers"][layer.kind][part]["makespan_s"]] for layer in layers]) for part in PARTS
        ]
        choice = Choice(stated["microbatch"], stated["tensor"], bytes_from_gib(stated["hbm_gb"]), stated["recompute"])
        return self.evaluator.placement_problem(choice, LayerLatencies(*makespans))

    @cached_property
    def placement(self) -> Placement:
        """The plan as a solution of :attr:`problem`."""
        stated = {key: self.document[key] for key in ("tensor", "data", "stages")}
        return placement_from_document(self.problem, stated, "result", self.document["batch_s"])

    def classes(self) -> Mapping[str, str]:
        """The class (:data:`dse.report.palette.OPERATOR_CLASSES`) of each operator by ``LAYER PART OPERATOR``."""
        return {
            f"{layer.kind} {part} {operator.name}": operator_class(operator.operation)
            for layer in self.graph.distinct_layers
            for part in PARTS
            for operator in getattr(layer, part)
        }

    def passes(self) -> Sequence[Share] | None:
        """The passes of the longest stage by operator class; None where its layers run side by side, in groups."""
        time = batch_time(self.problem, self.placement)
        rounds = math.ceil(self.problem.microbatches / self.placement.data)
        classes = self.classes()
        by_layer = {
            layer.kind: {part: self._busy_s(layer, part, classes) for part in PARTS} for layer in self.graph.layers
        }
        seconds, recompute_s = dict.fromkeys(LABELS, 0.0), time.recompute_s
        for position in self.placement.stages[time.stage].layers:
            kind = self.graph.layers[position].kind
            for part in ("forward", "backward"):
                for name, amount in by_layer[kind][part].items():
                    seconds[name] += rounds * amount
        if not math.isclose(math.fsum(seconds.values()), time.forward_s + time.backward_s, rel_tol=1e-6):
            return None
        return [*shares(seconds), Share("recomputation", recompute_s, "recomputation")]

    def _busy_s(self, layer: Layer, part: str, classes: Mapping[str, str]) -> Mapping[str, float]:
        stated = self.document["layers"][layer.kind][part]["operators"]
        return busy_s(
            [
                Interval(classes[f"{layer.kind} {part} {name}"], entry["start_s"], entry["finish_s"])
                for name, entry in stated.items()
            ]
        )


def operator_class(operation: Any) -> str:
    """The kind of core that runs it, but for collectives, which are a class of their own."""
    return "collective" if isinstance(operation, Collective) else core_kind(operation)


def cards(problem: CodesignProblem, machine: Machines, result: Result) -> list[Card]:
    """The accelerator and the plan; of several models a card each. ``machine`` is the answer's architecture alone."""
    plans = [
        _card(StatedPlan(job, machine, result.solution["models"][job.name]), job.name, result) for job in problem.jobs
    ]
    accelerator = _accelerator(result.solution["architecture"])
    if len(plans) > 1:
        return [
            Card([*accelerator, (score_text(result, result.objective.value or 0.0), "score")], title="accelerator"),
            *plans,
        ]
    return [replace(plans[0], figures=[*plans[0].figures, *accelerator])]


def _accelerator(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"{machine['tensor_cores']} × {machine['core_width']}×{machine['core_depth']}", "tensor cores"),
        (f"{machine['vector_cores']} × {machine['vector_lanes']}", "vector cores × lanes"),
        (memory_text(machine["global_buffer_bytes"]), "global buffer"),
        (f"{machine['area_mm2']:.1f} mm²", "area"),
    ]


def _card(stated: StatedPlan, name: str, result: Result) -> Card:
    document, metrics = stated.document, result.metrics["models"][name]
    shape = f"{document['pipeline']} × {document['data']:,} × {document['tensor']}"
    return Card(
        figures=[
            (f"{number(document['throughput_per_s'])}", "samples/s"),
            (time_text(document["batch_s"]), "a batch"),
            (shape, "pipeline × data × tensor"),
            (f"{document['microbatch']}", "samples per microbatch"),
            (f"{100 * metrics['model_flops_utilisation']:.1f} %", "of peak FLOPs (model FLOPs)"),
        ],
        plan=plan(stated.problem, stated.placement),
        breakdowns=[
            time_breakdown(stated.problem, stated.placement, stated.passes()),
            memory_breakdown(stated.problem, stated.placement),
        ],
        title=name if len(result.solution["models"]) > 1 else "",
    )

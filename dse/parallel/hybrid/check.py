"""The checker of hybrid plans: what the sharded stages take, worked out again from their definition.

The step of a stage (:mod:`dse.parallel.hybrid.stage_step`) is part of the problem. What a plan of it takes is worked
out by the checker of sharding plans (:mod:`dse.parallel.check`), one operation at a time, and added up here.
"""

from dataclasses import replace

from dse.parallel.check import account, values_in_memory
from dse.parallel.formats import Stated
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.hybrid.stage_problem import StageFigures, StageProblem
from dse.results.result import FailedCheckError


class StageChecker:
    """Accounts of the stages of one step."""

    def __init__(self, problem: HybridProblem) -> None:
        graph = problem.steps.graph
        self._in_memory = {graph.values[value].name for value in values_in_memory(graph)}

    def figures(self, problem: StageProblem, stated: Stated) -> StageFigures:
        """What a plan of a stage takes.

        Raises:
            FailedCheckError: the rules that the plan breaks.
        """
        step, graph = problem.step, problem.graph
        held = {number for number, value in enumerate(graph.values) if value.name in self._in_memory}
        of = account(replace(problem, state_bytes=None), stated, held)
        for number in step.arrives:
            if not of.faults and stated.arguments[number] not in problem.layouts_of_argument(number):
                of.faults.append(f"{graph.arguments[number].name} must arrive split over as many devices as possible")
        if of.faults:
            raise FailedCheckError("; ".join(of.faults))
        forward = backward = joined = update = 0
        for number, work_ps in of.worked.items():
            if step.runs_once[number]:
                update += work_ps
            elif step.forward[number]:
                forward += problem.microbatches * work_ps
            else:
                backward += problem.microbatches * work_ps
        for value, number, sent_ps in of.sent:
            if step.once[value]:
                joined += sent_ps
            elif number >= 0 and step.forward[number]:
                forward += problem.microbatches * sent_ps
            else:
                backward += problem.microbatches * sent_ps
        if problem.recompute:
            backward += forward
        reduced = self._reduced_ps(problem, stated)
        saved_bytes = of.peak_bytes if problem.activations else self._bytes(problem, stated, of.layouts)
        return StageFigures(forward, backward, joined, reduced, update, saved_bytes)

    def _shards(self, problem: StageProblem, layout: tuple[int, ...]) -> int:
        shards = 1
        for axis, dim in zip(problem.mesh.axes, layout, strict=True):
            shards *= axis.size if dim >= 0 else 1
        return shards

    def _reduced_ps(self, problem: StageProblem, stated: Stated) -> int:
        values, width = problem.graph.values, problem.mesh.devices
        sizes = [
            values[argument.value].size_bytes // self._shards(problem, layout)
            for argument, layout in zip(problem.graph.arguments, stated.arguments, strict=True)
            if argument.role == "parameter"
        ]
        summed = [
            each for each, is_summed in zip(problem.graph.operations, problem.step.summed, strict=True) if is_summed
        ]
        sizes += [values[value].size_bytes for operation in summed for value in operation.results]
        seconds = (
            problem.network.collective_s("all_reduce", size, problem.replicas, width, groups=width) for size in sizes
        )
        return sum(round(each * 1e12) for each in seconds)

    def _bytes(self, problem: StageProblem, stated: Stated, layouts: dict[int, tuple[int, ...]]) -> int:
        """What a device keeps: state, what has arrived for recomputation, and what the backward pass reads."""
        step, values = problem.step, problem.graph.values
        share = problem.microbatches * problem.replicas
        total = 0
        for number, (argument, layout) in enumerate(zip(problem.graph.arguments, stated.arguments, strict=True)):
            size, shards = values[argument.value].size_bytes, self._shards(problem, layout)
            if problem.recompute and number in step.entering:
                total += problem.in_flight * (size // share // shards)
            elif argument.role == "parameter":
                total += (1 if problem.state == "weights" else 2) * (size // shards)
            elif argument.role == "state" and problem.state == "optimizer":
                total += size // shards
        flying = 1 if problem.recompute else problem.in_flight
        made = {value for operation in problem.graph.operations for value in operation.results}
        for value, is_saved in enumerate(step.saved):
            if is_saved and value in made:
                total += flying * (values[value].size_bytes // share // self._shards(problem, layouts[value]))
        return total

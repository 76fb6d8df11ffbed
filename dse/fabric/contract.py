"""``dse fabric place`` by the contract of a problem."""

import math
from itertools import chain
from typing import Any

from dse.fabric.answer import RELIEF, FabricPosed, answer, bound_of, metrics_of, value_of
from dse.fabric.check import placement_faults_of, simulation_faults
from dse.fabric.cut_check import cut_faults
from dse.fabric.figures import PlacedPiece
from dse.fabric.formats import MetricsDocument, SolutionDocument, placements_from_document, turn_documents
from dse.fabric.methods import REFINED_COSTS
from dse.fabric.misfit import infeasibility
from dse.fabric.options import FabricOptions, problem_of
from dse.fabric.problem import FabricProblem
from dse.fabric.report import view
from dse.graph.dataflow.formats import graph_from_document
from dse.problem import Posed, ProblemType
from dse.report.view import View
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Objective, Result
from dse.run.progress import never_stop
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sources.dataflow import DATAFLOW
from dse.sources.describe import ModelSummary, dataflow_summary
from dse.sources.kinds import ProblemInput

_PLACED: Remembered[list[PlacedPiece]] = Remembered(4)
_METRICS: Remembered[dict[str, Any] | None] = Remembered(4)
_SIMULATED: Remembered[tuple[str, ...]] = Remembered(4)
"""Of the placements that were checked last: what is simulated of them, their metrics, and what the plain simulator
finds at fault. Nobody alters what a check compares with."""

_MOVE_OF_A_UNIT_S = 2e-7
"""What a move of annealing takes, about, for each unit that is placed."""

_CHANGE_OF_A_UNIT_S = 7e-4
"""What a small change of a placement and its brief simulation take, about, for each unit that is placed."""

_BESIDES_S = 2.0
"""What a run takes in addition to its moves, about: kernels are loaded, the answer is simulated and drawn."""


class FabricType(ProblemType[FabricOptions, FabricProblem]):
    """The units of a dataflow graph on the grid of a reconfigurable fabric, with their routes."""

    name = "fabric"
    help = """Place and route a dataflow graph on a fabric for maximum throughput, with an upper bound.

    GRAPH is a layer of a built-in model (bert-large:layer3, bert-large:layer0..layer2), a whole model, a YAML file of
    hyper-parameters, FILE.py:FUNCTION that returns a PyTorch module and example inputs, an ONNX file, a config.json of
    transformers, or a graph (dse.dataflow/1; docs/guides/place-on-a-fabric.md).
    """
    examples = (
        "dse fabric place docs/examples/dataflow.json --out runs/fabric",
        "dse fabric place bert-large:layer3 --fabric plasticine-8x16",
        "dse fabric place docs/examples/dataflow.json --chains 1 --moves 20000",
    )
    Options = FabricOptions
    Solution = SolutionDocument
    Metrics = MetricsDocument
    models = (DATAFLOW,)
    unchecked = ("unfinished", "notes")
    steering = ("cost", "tuned", "checkpoint", "chains", "moves", "rounds", "batch")

    def pose(self, options: FabricOptions) -> FabricPosed:
        """The graph spread over units of the fabric that the options name."""
        problem = problem_of(options)
        objective = Objective(name="throughput_per_s", value=None, unit="1/s", sense="max")
        return Posed(options, problem, problem.graph.name, problem.document(), objective)

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """Its operators by kind."""
        del sequence
        return dataflow_summary(graph_from_document(source.content, source.where))

    def predicted_s(self, posed: FabricPosed) -> float:
        """By the moves of all chains of all pieces, and by what is simulated in their rounds of refinement."""
        effort, seconds = posed.options.effort, _BESIDES_S
        for piece in posed.problem.pieces:
            units = len(piece.pipeline.units)
            seconds += effort.chains * effort.moves * units * _MOVE_OF_A_UNIT_S
            if posed.options.chosen_cost in REFINED_COSTS:
                seconds += effort.chains * effort.rounds * units * _CHANGE_OF_A_UNIT_S
        return seconds

    def answered_by(self, options: FabricOptions) -> tuple[str, ...]:
        """The cost."""
        return (options.chosen_cost,)

    def is_finished(self, result: Result) -> bool:
        """A search that has made its moves is finished, proven or not."""
        return result.status == "infeasible" or result.metrics.get("unfinished") == []

    def answer(self, posed: FabricPosed, run: Run) -> Result:
        """The best placement that the chains find."""
        return answer(posed, run)

    def faults(self, result: Result, posed: FabricPosed) -> list[str]:
        """Sites, routes, simulated values and bound; also why nothing fits."""
        problem = posed.problem
        expected = None if problem.misfit is None else infeasibility(problem.misfit, problem.cut).model_dump()
        stated = None if result.infeasibility is None else result.infeasibility.model_dump()
        faults = differences("infeasibility", stated, expected) + _unfinished_faults(result)
        if not result.solution:
            return (
                faults if result.status == "infeasible" else [*faults, "without a solution, status must be infeasible"]
            )
        placements = placements_from_document(problem, result.solution, "result: solution")
        if problem.turns:
            faults += cut_faults(problem)
            faults += differences("solution.turns", result.solution["turns"], turn_documents(problem))
        illegal = placement_faults_of(problem, placements)
        if illegal:
            return faults + illegal
        key = (Same(problem), *(part.tobytes() for each in placements for part in each.parts))
        pieces = _PLACED.get(
            key,
            lambda: [
                PlacedPiece(piece.pipeline, placement, problem.fabric)
                for piece, placement in zip(problem.pieces, placements, strict=True)
            ],
        )
        for name, stated_rate, true in (
            ("objective.value", result.objective.value, value_of(problem, pieces)),
            ("bound", result.bound, bound_of(problem, pieces)),
        ):
            if stated_rate is None or not math.isclose(stated_rate, true, rel_tol=PROOF_TOLERANCE):
                faults.append(f"{name} must be {true}, but got {stated_rate}")
        unfinished = result.metrics.get("unfinished", [])
        stop = None if RELIEF in unfinished else never_stop
        metrics = _METRICS.get((*key, stop), lambda: metrics_of(problem, pieces, stop))
        assert metrics is not None
        said = {"unfinished": unfinished, "notes": result.metrics.get("notes", [])}
        faults += differences("metrics", result.metrics, metrics | said)
        # The plain simulator takes a second: it is for a result that nothing else refutes.
        return faults or [*_SIMULATED.get(key, lambda: tuple(chain.from_iterable(map(simulation_faults, pieces))))]

    def view(self, result: Result, posed: FabricPosed, tables: Tables) -> View:
        """The grid, its operators, what binds, and the pipeline in time."""
        return view(posed.problem, result, tables)


def _unfinished_faults(result: Result) -> list[str]:
    """Whether what is said to have been stopped goes with the status. Which parts were stopped only the run knows."""
    stopped = result.metrics.get("unfinished", [])
    if not stopped and result.status == "interrupted":
        return ["metrics.unfinished must not be empty with status interrupted"]
    return []


PROBLEM = FabricType()

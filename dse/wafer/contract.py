"""``dse wafer`` by the contract of a problem."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dse.problem import Posed, ProblemType, result_of
from dse.report.view import View
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Objective, Result, document_of
from dse.run.run import Run
from dse.run.tables import Tables
from dse.sources.describe import ModelPart, ModelSummary, merged
from dse.sources.kinds import ProblemInput
from dse.wafer import report
from dse.wafer.answer import BOUND, SEARCH, Outcome, cost_bound, metrics, solve
from dse.wafer.check import cost, violations
from dse.wafer.documents import Metrics, Solution, placement_document, placement_from_document
from dse.wafer.files.kgraph import KernelGraph, write_kgraph
from dse.wafer.networks import NETWORKS
from dse.wafer.options import WaferOptions
from dse.wafer.packing import proof_like
from dse.wafer.problem import Kernel, WaferPlacement, WaferProblem
from dse.wafer.search.context import SearchResult
from dse.wafer.sources import CONTEST, FILE
from dse.wafer.sweep import report as sweep_report
from dse.wafer.sweep.check import bound_faults, is_affordable, sweep_faults
from dse.wafer.sweep.sweep import point_problems, sweep

_MOVE_S, _MOVE_OF_A_KERNEL_S, _ROWS_S = 3e-7, 4e-8, 1.5
"""What a move of annealing takes, about: of itself, and for each kernel; and what a run takes before the first."""

_AS_PRINTED_S = 0.3
"""What ``--method gigaplacer`` takes for each kernel on average; it makes no moves.

Measured on eight of the contest's cases: 110 CPU seconds for 337 kernels, from 0.04 a kernel (N) to 1.2 (M).
"""


@dataclass(frozen=True)
class Case:
    """A kernel graph with its header, and the problem that it poses."""

    graph: KernelGraph
    problem: WaferProblem


WaferPosed = Posed[WaferOptions, Case]


class WaferType(ProblemType[WaferOptions, Case]):
    """Kernels of a neural network on the tiles of a wafer, with the least weighted time, distance and adapters."""

    name = "wafer"
    help = """Size, shape and place the kernels of a network on a wafer at minimum weighted cost.

    The cost is the weighted sum of time, distance and adapters.

    CASE is a graph in the format of the ISPD 2020 contest, the name of one of the contest's networks (below),
    FILE.py:FUNCTION that returns a PyTorch module and example inputs, an ONNX file, or a network of the catalogue
    (docs/method/partition.md). --out DIR saves it as CASE.kgraph, with the placement as CASE.paint and a picture.
    """
    epilog = f"Networks of the contest:  {'  '.join(NETWORKS)}"
    examples = (
        "dse wafer resnet50-lean-blocks --out runs/wafer",
        "dse wafer resnet50-lean-blocks --moves 20000 --sweep side=400,633",
        "dse wafer fcnet --method rows --wadapter 400",
    )
    Options = WaferOptions
    Solution = Solution
    Metrics = Metrics
    models = (FILE, CONTEST)
    unchecked = ("unfinished",)
    steering = ("method", "moves")

    def pose(self, options: WaferOptions) -> WaferPosed:
        """The case that the options name, with their header."""
        graph = options.graph()
        problem = options.problem_of(graph)
        objective = Objective(name="total_cost", value=None, unit="1", sense="min")
        posed = Posed(options, Case(graph, problem), problem.name, document_of(problem), objective)
        point_problems(options, problem)  # refuses a sweep that cannot be
        return posed

    def described(self, source: ProblemInput, sequence: int | None) -> ModelSummary:
        """Its kernels by type."""
        del sequence
        problem = WaferOptions(source.where).problem()
        parts = merged(map(_part, problem.kernels))
        parameters, flops = (sum(getattr(part, key) for part in parts) for key in ("parameters", "flops"))
        return ModelSummary(problem.name, f"a graph of {len(problem.kernels):,} kernels", parts, parameters, flops)

    def predicted_s(self, posed: WaferPosed) -> float:
        """By the moves of annealing at every point."""
        problem = posed.problem.problem
        points = len(point_problems(posed.options, problem))
        if posed.options.method == "gigaplacer":
            return points * _AS_PRINTED_S * len(problem.kernels)
        a_move_s = _MOVE_S + _MOVE_OF_A_KERNEL_S * len(problem.kernels)
        return points * (_ROWS_S + posed.options.annealing_moves * a_move_s)

    def is_finished(self, result: Result) -> bool:
        """A search that has made its moves is finished, proven or not."""
        return result.metrics.get("unfinished") == []

    def answer(self, posed: WaferPosed, run: Run) -> Result:
        """A placement with its bound, or the points of a sweep."""
        if run.directory is not None:
            run.write(f"{posed.name}.kgraph", write_kgraph(posed.problem.graph))
        if posed.options.sweep:
            return sweep(posed, posed.problem.problem, run)
        started = time.perf_counter()
        outcome = solve(posed.problem.problem, posed.options, run)
        result = _result(posed, outcome, run.seed, time.perf_counter() - started)
        unfinished = [] if result.status in ("optimal", "infeasible") else list(outcome.unfinished)
        status = "interrupted" if unfinished and run.stop() == "interrupted" else result.status
        return result.model_copy(update={"metrics": result.metrics | {"unfinished": unfinished}, "status": status})

    def faults(self, result: Result, posed: WaferPosed) -> list[str]:
        """Recomputes all that follows from the placement, the proof that nothing fits, and the bound."""
        options, problem = posed.options, posed.problem.problem
        if result.bound is not None and result.bound < 0:
            return [f"bound must be at least 0, but got {result.bound}"]
        if options.sweep:
            faults = sweep_faults(options, problem, result)
            if faults or not is_affordable(options, problem):
                return faults
            return self.proof_faults(result, posed) or []
        stated = None if result.infeasibility is None else result.infeasibility.document()
        proof = _typed(proof_like(stated, problem))
        faults = _unfinished_faults(result)
        if (result.status == "infeasible") != (proof is not None):
            faults.append(f"status must {'' if proof else 'not '}be infeasible")
        faults += differences("infeasibility", _plain(result.infeasibility), _plain(proof))
        if not result.solution:
            return faults + [
                f"metrics.{key} must not be given without a placement" for key in {*result.metrics} - {"unfinished"}
            ]
        placement = placement_from_document(problem, result.solution, "result")
        broken = violations(problem, placement)
        if broken:
            return faults + broken
        value = cost(problem, placement).total
        if result.objective.value is None or not math.isclose(result.objective.value, value, rel_tol=PROOF_TOLERANCE):
            faults.append(f"objective.value must be total_cost = {value}, but got {result.objective.value}")
        expected = metrics(problem, placement) | {"unfinished": result.metrics.get("unfinished")}
        return faults + differences("metrics", result.metrics, expected) + _proof_faults(result, problem, placement)

    def open_claims(self, result: Result, posed: WaferPosed) -> Mapping[str, str]:
        """The bounds of a sweep."""
        options, problem = posed.options, posed.problem.problem
        if not options.sweep or not result.solution or is_affordable(options, problem):
            return {}
        reason = "for a sweep, bounds were only compared with the costs (--prove recomputes them)"
        return dict.fromkeys(("bound", "metrics", "solution.points"), reason)

    def proof_faults(self, result: Result, posed: WaferPosed) -> list[str] | None:
        """Recomputes the bounds of all points."""
        if not posed.options.sweep or not result.solution:
            return None
        return bound_faults(posed.options, posed.problem.problem, result)

    def view(self, result: Result, posed: WaferPosed, tables: Tables) -> View:
        """The layout and its kernels, or the front of a sweep."""
        problem = posed.problem.problem
        graph = {f"{posed.name}.kgraph": write_kgraph(posed.problem.graph)}
        if posed.options.sweep:
            view = sweep_report.view(problem, posed.options, result, graph)
        else:
            view = report.view(problem, result, graph)
        return replace(view, notes=[*view.notes, *posed.problem.graph.notes])


def _result(posed: WaferPosed, outcome: Outcome, seed: int, seconds: float) -> Result:
    problem, placement = posed.problem.problem, outcome.best.placement
    if placement is not None:
        broken = violations(problem, placement)
        if broken:
            raise FailedCheckError("; ".join(broken))
    return result_of(
        posed=posed,
        command="wafer",
        value=None if placement is None else cost(problem, placement).total,
        bound=outcome.bound,
        solution=None if placement is None else placement_document(problem, placement),
        metrics=None if placement is None else metrics(problem, placement),
        infeasibility=_typed(outcome.proof),
        evaluations=outcome.best.evaluations,
        seconds=seconds,
        seed=seed,
        method=posed.options.method,
    )


def _part(kernel: Kernel) -> ModelPart:
    """The weights of a kernel, and two FLOPs for each of them at every point of its output."""
    parameters, flops = 0, 0
    for each in kernel.convolutions:
        weights = each.window_height * each.window_width * each.inputs * each.outputs
        parameters += weights
        flops += 2 * weights * each.height * each.width // each.stride**2
    return ModelPart(kernel.kind, parameters=parameters, flops=flops)


def _typed(proof: Mapping[str, object] | None) -> Infeasibility | None:
    return None if proof is None else Infeasibility.of(dict(proof))


def _plain(proof: Infeasibility | None) -> dict[str, object] | None:
    return None if proof is None else proof.model_dump()


def _proof_faults(result: Result, problem: WaferProblem, placement: WaferPlacement) -> list[str]:
    """Whether the bound follows from the problem. A run that was stopped may state less."""
    if result.bound is None:
        return []
    proven = cost_bound(problem, SearchResult(placement, cost(problem, placement)))
    if proven is not None and result.bound <= proven * (1 + PROOF_TOLERANCE):
        return []
    return [f"bound must be at most {proven}, but got {result.bound}"]


def _unfinished_faults(result: Result) -> list[str]:
    """Whether what is said to have been stopped goes with the status: nothing of a proven answer, something of others.

    Which parts were stopped only the run itself knows.
    """
    stopped = result.metrics.get("unfinished")
    if stopped not in ([], [SEARCH], [BOUND], [SEARCH, BOUND]):
        return [f"metrics.unfinished must list {SEARCH}, {BOUND}, both or neither, but got {stopped}"]
    if stopped and result.status in ("optimal", "infeasible"):
        return [f"metrics.unfinished must be empty with status {result.status}"]
    if not stopped and result.status == "interrupted":
        return ["metrics.unfinished must not be empty with status interrupted"]
    return []


PROBLEM = WaferType()

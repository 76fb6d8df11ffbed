"""``dse codesign`` by the contract of a problem."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel

from dse.codesign.answer import CodesignPosed, SearchFunction, Space, solve
from dse.codesign.check import answer_metrics, violations
from dse.codesign.check_metrics.faults import metric_faults
from dse.codesign.check_metrics.optimum import unanswered_faults
from dse.codesign.check_metrics.proof import is_affordable, optimality_faults
from dse.codesign.chips.contract import CHIPS
from dse.codesign.chips.documents import ChipMetrics, ChipSolution
from dse.codesign.documents import Metrics, Solution
from dse.codesign.formats import JournalledEvaluations, problem_document
from dse.codesign.modern.contract import MODERN
from dse.codesign.modern.documents import ModernMetrics, ModernSolution, SharedMetrics
from dse.codesign.modern.shared_contract import SHARED
from dse.codesign.options import CodesignOptions
from dse.codesign.proven_optima import ProvenOptima
from dse.codesign.report.report import ARCHITECTURES_TABLE, architectures_table, view
from dse.codesign.search import exhaustive, sweep
from dse.codesign.search.hysteresis import RULES, AreaWalk, min_architectures
from dse.problem import Posed, ProblemType
from dse.report.view import View
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Objective, Result, Status, relative_gap
from dse.run.run import Run
from dse.run.tables import Tables

AnyPosed = Posed[CodesignOptions, Any]
"""Of either kind of plans: :class:`~dse.codesign.answer.Space`, or that of :mod:`dse.codesign.modern`."""


class CodesignType(ProblemType[CodesignOptions, Any]):
    """The best accelerator for training jobs, and the best placement of each job on a cluster of them."""

    name = "codesign"
    help = """Find the accelerator and plan with the highest training throughput, and prove that they are optimal.

    MODEL is a name from `dse models`, a YAML file of hyper-parameters (docs/examples/model.yaml), FILE.py:FUNCTION that
    returns a PyTorch module and example inputs, a config.json of transformers, or an ONNX file. Several models share
    one accelerator.
    """
    examples = (
        "dse codesign bert-large --out runs/bert-large",
        "dse codesign bert-large --fixed a100-sxm --accelerators 64",
        "dse codesign llama3-70b --space chips-2026 --power-cap 1000",
    )
    Options = CodesignOptions
    Solution = Solution
    Metrics = Metrics
    forms = ((ModernSolution, ModernMetrics), (ModernSolution, SharedMetrics), (ChipSolution, ChipMetrics))
    unchecked = ("failed", "unfinished")
    steering = ("search", "samples", "hysteresis", "hysteresis_rule")
    additions = ("pareto", "sensitivity")

    def pose(self, options: CodesignOptions) -> AnyPosed:
        """The jobs and the space of architectures."""
        if (other := _other(options)) is not None:
            return other.pose(options)
        problem = options.problem()
        objective = Objective(name=problem.objective.per, value=None, unit=problem.objective.unit, sense="max")
        space = Space(problem, problem.machines())
        return Posed(options, space, problem.name, problem_document(problem), objective)

    def documents(self, options: CodesignOptions) -> tuple[type[BaseModel], type[BaseModel]]:
        """Those of the plans that are searched."""
        if options.is_of_chips:
            return ChipSolution, ChipMetrics
        if options.plans != "modern":
            return Solution, Metrics
        return ModernSolution, SharedMetrics if options.is_shared else ModernMetrics

    def predicted_s(self, posed: AnyPosed) -> float:
        """By the size of the space, or the architectures that the search evaluates.

        With modern plans it takes seconds, and always runs in this process.
        """
        if _other(posed.options) is not None:
            return 0.0
        options, problem, machines = posed.options, posed.problem.problem, posed.problem.machines
        if options.search == "exhaustive":
            return exhaustive.predicted_seconds(problem, machines)
        samples = options.samples if options.search == "bayesian" else min_architectures(machines, options.hysteresis)
        return sweep.predicted_seconds(problem, samples)

    def answered_by(self, options: CodesignOptions) -> tuple[str, ...]:
        """The search that was asked."""
        return (options.search,)

    def statuses(self, result: Result) -> tuple[Status, ...] | None:
        """At the best score of its HBM size an answer is only feasible where another size may be the better choice."""
        gap = relative_gap(result.objective.value, result.bound)
        return ("optimal", "feasible") if gap is not None and gap <= PROOF_TOLERANCE else None

    def answer(self, posed: AnyPosed, run: Run) -> Result:
        """The best architecture and plans by the asked search; evaluations are in the journal."""
        if (other := _other(posed.options)) is not None:
            return other.answer(posed, run)
        problem, machines = posed.problem.problem, posed.problem.machines
        store = None if run.journal is None else JournalledEvaluations(run.journal, problem, machines)
        result, outcome = solve(posed, run, _search(posed, run), store, ProvenOptima())
        run.tables.put(ARCHITECTURES_TABLE, architectures_table(machines, outcome))
        return result

    def faults(self, result: Result, posed: AnyPosed) -> list[str]:
        """Architecture, schedules, placement, throughput, energy and all figures, each recomputed."""
        if (other := _other(posed.options)) is not None:
            return other.faults(result, posed)
        options, problem, machines = posed.options, posed.problem.problem, posed.problem.machines
        if not result.solution:
            return unanswered_faults(options, problem, machines, result)
        broken = violations(problem, result.solution)
        if broken:
            return broken
        metrics = answer_metrics(problem, result.solution, machines)
        faults, value = [], result.objective.value
        if value is None or not math.isclose(value, metrics["score"], rel_tol=PROOF_TOLERANCE):
            faults.append(f"objective.value must be score = {metrics['score']}, but got {value}")
        for key, figure in metrics.items():
            faults += differences(f"metrics.{key}", result.metrics.get(key), figure)
        faults = faults or metric_faults(options, problem, result, machines)
        if faults or not is_affordable(problem, machines):
            return faults
        return self.proof_faults(result, posed) or []

    def open_claims(self, result: Result, posed: AnyPosed) -> Mapping[str, str]:
        """That no other architecture is better."""
        if (other := _other(posed.options)) is not None:
            return other.open_claims(result, posed)
        if result.bound is None or not result.solution:
            return {}
        problem, machines = posed.problem.problem, posed.problem.machines
        if is_affordable(problem, machines) and self.proof_faults(result, posed) is not None:
            return {}
        return {"bound": "proving again that no architecture exceeds it takes as long as the search (--prove)"}

    def proof_faults(self, result: Result, posed: AnyPosed) -> list[str] | None:
        """By a search of the whole space."""
        if (other := _other(posed.options)) is not None:
            return other.proof_faults(result, posed)
        if not result.solution:
            return None
        return optimality_faults(posed.options, posed.problem.problem, posed.problem.machines, posed.digest, result)

    def view(self, result: Result, posed: AnyPosed, tables: Tables) -> View:
        """The accelerator, the plans, the baselines, the space and the schedules."""
        if (other := _other(posed.options)) is not None:
            return other.view(result, posed, tables)
        return view(posed.problem.problem, posed.problem.machines, result, tables)


def _other(options: CodesignOptions) -> ProblemType[CodesignOptions, Any] | None:
    """The kind of problem that options with a space of chips, or with modern plans, pose; None for others."""
    if options.is_of_chips:
        return CHIPS
    if options.plans != "modern":
        return None
    return SHARED if options.is_shared else MODERN


def _search(posed: CodesignPosed, run: Run) -> SearchFunction:
    """The search that the options name; one that proposes architectures is driven by the floors above, if they can."""
    options, machines = posed.options, posed.problem.machines
    if options.search == "exhaustive":
        return exhaustive.search
    proposer: sweep.Proposer
    if options.search == "hysteresis":
        proposer = AreaWalk(machines.area_mm2, RULES[options.hysteresis_rule](options.hysteresis))
    else:
        from dse.codesign.search.bayesian import ArchitectureStudy

        proposer = ArchitectureStudy(machines, options.samples, run.seed, run.executor.workers)
    return partial(run.methods.get("sweep", sweep.search), proposer=proposer)


PROBLEM = CodesignType()

"""What all sections of a reproduction share: the job, its budget, and searches that are made once."""

import math
import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from dse.codesign.answer import SearchFunction, solve
from dse.codesign.baseline import baselines
from dse.codesign.context import SearchContext
from dse.codesign.contract import PROBLEM
from dse.codesign.evaluation.evaluator import Evaluate, Evaluator
from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
from dse.codesign.evaluation.pricing import Pricing, price
from dse.codesign.formats import JournalledEvaluations
from dse.codesign.objective import Mean
from dse.codesign.options import CodesignOptions, CostModelName, Granularity
from dse.codesign.problem import CodesignProblem, Evaluation, SearchOutcome, TrainingPlan
from dse.codesign.search import exhaustive, sweep
from dse.problem import pose, result_of
from dse.reproduce.phaze.mapper_prices import mapper_price
from dse.reproduce.phaze.published import Cores, PublishedPaper
from dse.reproduce.phaze.stopwatch import PhaseSeconds, TimedExecutor, TimedWorker, Work
from dse.reproduce.trials import required_journal
from dse.results.result import Result
from dse.run.progress import StopSignal
from dse.run.run import Run
from dse.schedule.search.layer import DEFAULT_LIMITS
from hardware.machines import Machines
from hardware.units import MIB

TRACED = "phaze-2024, traced"
"""The cost model ``phaze-2024`` with layers as the published tool traces them."""

MAPPED = "phaze-2024, traced, Sunstone"
"""The same with products priced by the paper's mapper (:mod:`dse.reproduce.phaze.mapper`)."""

_PRICES = {
    "consistent": "costs differ from the published tool's (memory, L1 and network of TPUv4, weight gradients, all "
    "layers)",
    "phaze-2024": "product cycles come from our tiling search, the paper's from Sunstone, and layers contain only "
    "compute operators, whereas the published tool traces every node",
    TRACED: "product cycles come from our tiling search, the paper's from Sunstone",
    MAPPED: "",
}


@dataclass(frozen=True)
class Budget:
    """How long one search may take; what it has not proven by then is printed with its gap.

    ``model_s`` is for one model over the whole space, ``common_s`` for all models, ``walk_s`` for an area walk,
    ``bayesian_s`` for a Bayesian search of ``samples`` architectures.
    """

    model_s: float = 150.0
    common_s: float = 300.0
    walk_s: float = 30.0
    bayesian_s: float = 20.0
    samples: int = 60

    @property
    def limits_s(self) -> dict[str, float]:
        """The limits by the name of the search."""
        named = {"one model": self.model_s, "common": self.common_s, "area walk": self.walk_s}
        return {**named, f"Bayesian ({self.samples} samples)": self.bayesian_s}


DEFAULT_BUDGET = Budget()


@dataclass(frozen=True)
class Answered:
    """One search: its checked result, what it saw, and the work that it took (without what the journal had)."""

    result: Result
    outcome: SearchOutcome
    machines: Machines
    work: tuple[Work, ...]
    seconds: float

    @property
    def spent(self) -> PhaseSeconds:
        """The work by phase."""
        return sum((work.seconds for work in self.work), PhaseSeconds())

    @property
    def value(self) -> float | None:
        """The score of the answer; None where the search was stopped before any."""
        return self.result.objective.value

    def plan(self, model: str) -> dict[str, Any] | None:
        """The plan of one model; None without an answer."""
        plan: dict[str, Any] | None = self.result.solution.get("models", {}).get(model)
        return plan

    @property
    def proof(self) -> str:
        """``proven``, or the gap that is left."""
        if self.value is None:
            return f"no answer ({self.outcome.stopped or self.result.status})"
        if self.result.status == "optimal":
            return "proven"
        return "not proven" if self.result.gap is None else f"gap {100 * self.result.gap:.2f} %"


@dataclass(frozen=True, eq=False)
class Context:
    """The searches of one reproduction, each made when it is first needed.

    Attributes:
        paper: the published numbers.
        models: the models that are compared, in the paper's order.
        cost_models: the cost models that are compared.
        run: where the work runs; finished evaluations of all searches are in its journal.
        budget: limits of single searches.
    """

    paper: PublishedPaper
    models: tuple[str, ...]
    cost_models: tuple[str, ...]
    run: Run
    budget: Budget = DEFAULT_BUDGET
    _worker: TimedWorker = field(default_factory=TimedWorker, init=False, repr=False)
    _answers: dict[tuple[CodesignOptions, str], Answered] = field(default_factory=dict, init=False, repr=False)
    _evaluations: dict[tuple[str, str, int], Evaluation] = field(default_factory=dict, init=False, repr=False)
    _baselines: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def unlike_all_models(self) -> str:
        """Why a mean over our models is not the paper's, which is over all of its own; empty where it is."""
        if set(self.models) == set(self.paper.models):
            return ""
        return f"ours covers {', '.join(self.models)}, the paper's {len(self.paper.models)} models"

    def prices(self, cost_model: str) -> str:
        """What makes latencies under a cost model, :data:`TRACED` or :data:`MAPPED` differ from the paper's."""
        return _PRICES[cost_model]

    def ways(self, model: str) -> tuple[str, ...]:
        """The cost models, and :data:`TRACED` with ``phaze-2024`` for a model that the tool counts in Table 4."""
        traced = "phaze-2024" in self.cost_models and self.paper.models[model].table_4 is not None
        return (*self.cost_models, TRACED) if traced else self.cost_models

    def options(self, models: tuple[str, ...], cost_model: str, mean: Mean = "arithmetic") -> CodesignOptions:
        """The paper's job for ``models`` under a cost model, :data:`TRACED` or :data:`MAPPED`."""
        setup = self.paper.setup
        granularity: Granularity = "operators"
        if cost_model in (TRACED, MAPPED):
            cost_model, granularity = "phaze-2024", "trace"
        return CodesignOptions(
            models=models,
            accelerators=setup.accelerators,
            global_batch=setup.global_batch,
            microbatch=setup.microbatch,
            hbm_gb=setup.hbm_gb,
            mean=mean,
            cost_model=cast(CostModelName, cost_model),
            granularity=granularity,
        )

    def pricing(self, cost_model: str) -> Pricing:
        """What prices operators: the mapper's cycles with :data:`MAPPED`."""
        return mapper_price if cost_model == MAPPED else price

    def model_search(self, model: str, cost_model: str) -> Answered:
        """The best architecture for one model, over the whole space."""
        name = f"{model}, {cost_model}"
        return self.search(self.options((model,), cost_model), name, self.budget.model_s)

    def baselines(self, model: str, cost_model: str, reference: str) -> dict[str, dict[str, Any]]:
        """The accelerator ``reference`` with the paper's expert placement and with ours, by placement."""
        key = (model, cost_model, reference)
        if key not in self._baselines:
            (job,) = self.options((model,), cost_model).problem().jobs
            rows = baselines(job, reference, self.pricing(cost_model))
            self._baselines[key] = {row["placement"]: row for row in rows}
        return self._baselines[key]

    def common_search(self, cost_model: str, mean: Mean = "arithmetic") -> Answered:
        """The best common architecture of all chosen models; the searches of the single models come first.

        Their evaluations are in the journal by then, so that they are not made twice.
        """
        for model in self.models:
            self.model_search(model, cost_model)
        if len(self.models) == 1:
            return self.model_search(self.models[0], cost_model)
        name = f"common ({mean} mean), {cost_model}"
        return self.search(self.options(self.models, cost_model, mean), name, self.budget.common_s)

    def bayesian_search(self, model: str, cost_model: str) -> Answered:
        """A black-box search for one model; what it proposes depends on the number of workers."""
        from dse.codesign.search.bayesian import ArchitectureStudy  # Optuna takes a second to import

        samples, parallel = self.budget.samples, max(1, self.run.executor.workers)
        options = replace(self.options((model,), cost_model), search="bayesian", samples=samples)

        def function(context: SearchContext) -> SearchOutcome:
            return sweep.search(context, proposer=ArchitectureStudy(context.machines, samples, self.run.seed, parallel))

        return self.search(options, f"{model}, {cost_model}, Bayesian", self.budget.bayesian_s, function)

    def search(
        self,
        options: CodesignOptions,
        name: str,
        limit_s: float,
        function: SearchFunction = exhaustive.search,
        journalled: bool = True,
    ) -> Answered:
        """The answer of a search over the space of ``options``.

        Args:
            options: the question.
            name: what the progress display calls it.
            limit_s: when the search has to end with what it has.
            function: how the space is searched.
            journalled: whether evaluations are taken from the journal and put there; without, all work is timed.
        """
        key = (options, name)
        if key not in self._answers:
            problem = options.problem()
            machines = problem.machines()
            if (reason := self.run.stop()) is not None:
                return self._unbegun(options, machines, reason)
            store = self._store(problem, machines) if journalled else {}
            timed = TimedExecutor(self.run.executor, self._worker)
            started = time.monotonic()
            run = Run(
                executor=timed,
                progress=lambda _phase, done, total: self.run.progress(name, done, total),
                stop=self._until(started + limit_s),
                seed=self.run.seed,
            )
            result, outcome = solve(pose(PROBLEM, options), run, function, store)
            self.run.progress(name, len(machines), len(machines))
            seconds = time.monotonic() - started
            self._answers[key] = Answered(result, outcome, machines, tuple(timed.work), seconds)
        return self._answers[key]

    def _unbegun(self, options: CodesignOptions, machines: Machines, reason: str) -> Answered:
        """No answer, as the run was stopped before the search: its first bounds would take another second."""
        result = result_of(
            PROBLEM.name,
            pose(PROBLEM, options),
            status="interrupted" if reason == "interrupted" else "unknown",
            seconds=0.0,
            seed=self.run.seed,
            method=options.search,
        )
        outcome = SearchOutcome(None, (), math.inf, (), {}, 0, proven=False, stopped=reason)
        return Answered(result, outcome, machines, (), 0.0)

    def evaluate(self, model: str, cost_model: str, architecture: int) -> Evaluation:
        """The exact evaluation of one architecture of the space for one model, in this process."""
        key = (model, cost_model, architecture)
        if key not in self._evaluations:
            problem = self.options((model,), cost_model).problem()
            machines = problem.machines()
            if cost_model == MAPPED:  # the journal's evaluations are of our own prices
                evaluator = Evaluator(problem.jobs[0], machines, pricing=mapper_price)
                self._evaluations[key] = evaluator.evaluate(architecture)
                return self._evaluations[key]
            store = self._store(problem, machines)
            task = JobTask(0, Evaluate(architecture, DEFAULT_LIMITS.nodes))
            if task not in store:
                store[task] = JobEvaluators(problem, machines)(task)
            self._evaluations[key] = store[task]
        return self._evaluations[key]

    def _store(self, problem: CodesignProblem, machines: Machines) -> MutableMapping[JobTask, Evaluation]:
        return JournalledEvaluations(required_journal(self.run), problem, machines)

    def _until(self, deadline_s: float) -> StopSignal:
        """The caller's signal, or the limit of one search."""
        return lambda: self.run.stop() or ("time limit" if time.monotonic() > deadline_s else None)


def position(machines: Machines, wanted: Cores, global_buffer_mb: int) -> int | None:
    """Position of an architecture in the space; None if it is not a point of it."""
    positions = np.flatnonzero(
        (machines.tensor_cores == wanted.tensor_cores)
        & (machines.vector_cores == wanted.vector_cores)
        & (machines.core_width == wanted.width)
        & (machines.core_depth == wanted.depth)
        & (machines.vector_lanes == wanted.lanes)
        & (machines.global_buffer_bytes == global_buffer_mb * MIB)
    )
    return int(positions[0]) if len(positions) else None


def plan_at(evaluation: Evaluation, hbm_bytes: int) -> TrainingPlan | None:
    """The plan of an evaluation at one HBM size."""
    return next((plan for plan in evaluation.plans if plan is not None and plan.hbm_bytes == hbm_bytes), None)

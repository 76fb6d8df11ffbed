"""Tables 2 and 3, Figures 5 and 6 of the multi-chip partitioning paper: how many samples each method needs.

Every method partitions every graph with several seeds, and its best cost after each evaluation is recorded. The paper
counts samples until the geometric mean over 16 unseen graphs (Table 2, Figure 5: analytical model) or the throughput of
BERT (Table 3, Figure 6: hardware, here the simulator) reaches some multiple of a greedy heuristic's. Its multiples
depend on its heuristic, so ours are shares of the best throughput that any method has found for a graph; the
improvement over our greedy heuristic is next to them. Two parts are not in the paper: the simulator on the test graphs
and BERT together, and what the learned policy is worth without its parts.

Methods that do not sample (dynamic programming, portfolio) count as one evaluation; what they compute is not counted in
samples. Learned methods come from outside (the command line), by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache

import numpy as np

from dse.partition.check import violations
from dse.partition.methods import METHODS, Method
from dse.partition.options import EvaluatorName, PartitionOptions, Question, question_of
from dse.partition.problem import Chips, Floats
from dse.partition.search.context import SearchContext, SearchResult
from dse.reproduce.mcm.bert import NAME as BERT
from dse.reproduce.mcm.bert import paper_bert, problem_on
from dse.reproduce.mcm.tables import GREEDY, Curve, Trial, section_of
from dse.reproduce.section import Section
from dse.reproduce.trials import finished
from dse.results.result import FailedCheckError, digest
from dse.run.executor import InProcessExecutor
from dse.run.run import Run
from dse.sources.catalogue import split
from hardware.packages import package

UNSAMPLED = ("dp", "portfolio")
"""Methods whose answer counts as one evaluation of the reference evaluator, which they know by heart.

What they ask of a simulator counts as everyone's.
"""

SAMPLED: Mapping[str, Method] = {
    name: METHODS[name] for name in (GREEDY, "random", "anneal", "hill-climb", "refine", "screen", *UNSAMPLED)
}
"""What the learned methods are compared with."""

_PRICED: Mapping[EvaluatorName, str] = {"analytical": "reference evaluator", "simulator": "simulator"}

PACKAGE = "mcm-36"


@dataclass(frozen=True)
class StudyBudget:
    """How much is tried: evaluations of each method, and seeds."""

    samples: int = 300
    seeds: int = 5


HUNDRED = 100
"""Evaluations of which a mean is taken."""


class _CostRecorder:
    """What an evaluator says of the evaluations that count.

    Args:
        samples: how many of them count.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._costs: list[float] = []

    def add(self, _chips: Chips, costs: Floats) -> None:
        """These were priced, [B]."""
        self._costs += costs[: self._samples - len(self._costs)].tolist()

    @property
    def curve(self) -> Curve:
        """The lowest cost after each evaluation."""
        points: list[tuple[int, float]] = []
        for count, cost_s in enumerate(self._costs, start=1):
            if cost_s < (points[-1][1] if points else np.inf):
                points.append((count, cost_s))
        return tuple(points)

    @property
    def throughputs(self) -> tuple[float, ...]:
        """The mean throughput of each hundred, in inputs per second; that of what cannot run is 0."""
        costs = np.array(self._costs)
        return tuple(float(np.mean(1.0 / costs[first : first + HUNDRED])) for first in range(0, len(costs), HUNDRED))


@dataclass(frozen=True)
class Made:
    """What a trial came to.

    Attributes:
        answer: of the method.
        curve: the best cost after each evaluation.
        throughputs: the mean of each hundred evaluations, in inputs per second.
    """

    answer: SearchResult
    curve: Curve
    throughputs: tuple[float, ...] = ()


@cache
def question_about(graph: str) -> Question:
    """The graph on :data:`PACKAGE`; :data:`BERT` is the one of the reproduction."""
    if graph == BERT:
        chosen = package(PACKAGE)
        return Question(problem_on(paper_bert(), chosen), chosen)
    return question_of(PartitionOptions(graph, package=PACKAGE))


class Trials:
    """Makes trials, wherever it is sent.

    Args:
        methods: by name.
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = dict(methods)

    def describe(self, trial: Trial) -> str:
        """A trial for people."""
        return f"{trial.method} on {trial.graph}, seed {trial.seed}"

    def __call__(self, trial: Trial) -> Curve:
        """The best cost after each evaluation."""
        return self.made(trial).curve

    def made(self, trial: Trial) -> Made:
        """The search of ``dse partition`` with this method, its evaluations recorded.

        Raises:
            FailedCheckError: the method's partition is not valid.
        """
        question, recorder = question_about(trial.graph), _CostRecorder(trial.samples)
        evaluator = question.evaluator(trial.evaluator, recorder)
        context = SearchContext(question.problem, evaluator, InProcessExecutor(), trial.seed, trial.samples)
        answer = self._methods[trial.method](context)
        broken = [] if answer.chip is None else violations(question.problem, answer.chip)
        if broken:
            raise FailedCheckError("; ".join(broken))
        if trial.method in UNSAMPLED and evaluator.is_reference:
            return Made(answer, ((1, answer.cost_s),) if answer.chip is not None else ())
        return Made(answer, recorder.curve, recorder.throughputs)


@dataclass(frozen=True)
class Study:
    """What is run, and where.

    Attributes:
        methods: the learned ones by name; the others are :data:`SAMPLED`.
        variants: of one learned method, for the ablation.
        run: where trials are made, and the first seed of each method.
        budget: evaluations and seeds.
        graphs: of Table 2; the test graphs of the split as a rule.
        large: the graph of Table 3.
    """

    methods: Mapping[str, Method]
    variants: Mapping[str, Method]
    run: Run
    budget: StudyBudget = StudyBudget()
    graphs: tuple[str, ...] = ()
    large: str = BERT

    def over(self, sources: Sequence[str]) -> "Study":
        """The study of ``sources`` in place of the paper's graphs, the first in place of BERT; of none, as it is."""
        return replace(self, graphs=tuple(sources), large=sources[0]) if sources else self

    def section(self, part: str) -> Section:
        """One of :data:`dse.reproduce.mcm.tables.TITLES`, with its figure.

        Raises:
            StoppedError: the stop signal gave a reason; finished trials are in the journal.
        """
        graphs, evaluator, known = self._scope(part)
        curves, failed = self.curves(part)
        samples = self.budget.samples
        scope = (
            f"{PACKAGE}, {_PRICED[evaluator]}; mean ± standard deviation over {self.budget.seeds} seeds, at most "
            f"{samples} evaluations; levels are shares of the best throughput of all methods here"
        )
        return section_of(part, curves, failed, graphs, list(known), scope, samples)

    def curves(self, part: str) -> tuple[dict[Trial, Curve], list[str]]:
        """(best cost of every trial of a part after each evaluation, reasons of those that failed).

        Raises:
            StoppedError: as :meth:`section`.
        """
        graphs, evaluator, known = self._scope(part)
        seeds = range(self.run.seed, self.run.seed + self.budget.seeds)
        trials = [
            Trial(graph, evaluator, method, seed, self.budget.samples)
            for graph in graphs
            for method in known
            for seed in (seeds if method not in (GREEDY, "portfolio") else seeds[:1])
        ]
        work = Trials(known)
        keys = {trial: digest(asdict(trial)) for trial in trials}
        curves, failed = finished(self.run, f"trials of {part}", work, keys)
        return (
            {trial: tuple((int(n), float(c)) for n, c in curve) for trial, curve in curves.items()},
            [f"{work.describe(trial)}: {reason}" for trial, reason in failed.items()],
        )

    def _scope(self, part: str) -> tuple[Sequence[str], EvaluatorName, Mapping[str, Method]]:
        """(graphs, what prices them, methods by name) of a part."""
        graphs = self.graphs or split()["test"]
        if part == "table3":
            return (self.large,), "simulator", {**SAMPLED, **self.methods}
        if part == "simulator":
            return graphs if self.graphs else (*graphs, self.large), "simulator", {**SAMPLED, **self.methods}
        if part == "ablation":
            return graphs, "analytical", {GREEDY: SAMPLED[GREEDY], **self.variants}
        return graphs, "analytical", {**SAMPLED, **self.methods}

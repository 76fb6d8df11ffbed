"""The searches of a reproduction of GigaPlacer: each made once, recorded in the journal, spread over the executor.

A search is one piece of work on one core, so that its seconds can be compared; what it finds depends on its seed and
its moves alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from time import process_time
from types import MappingProxyType
from typing import Any, Literal

from dse.reproduce.trials import finished
from dse.results.result import FailedCheckError, digest, document_of, relative_gap
from dse.run.directory import JOURNAL_FILE
from dse.run.executor import InProcessExecutor
from dse.run.progress import StopSignal, ask, never_stop
from dse.run.run import Run
from dse.wafer.answer import cost_bound
from dse.wafer.check import cost, violations
from dse.wafer.documents import placement_document, placement_from_document
from dse.wafer.methods import METHODS
from dse.wafer.options import MOVES
from dse.wafer.problem import Convolution, Cost, Kernel, Wafer, WaferPlacement, WaferProblem, Weights
from dse.wafer.search.context import COLUMNS, COMPACTION, PROTOCOLS, TREES, SearchContext, SearchResult
from dse.wafer.search.gigaplacer.method import answered

CostPart = Literal["total", "time", "distance", "adapter"]
"""What a placement is judged by."""

COST_PARTS: tuple[CostPart, ...] = ("total", "time", "distance", "adapter")


@dataclass(frozen=True)
class Variant:
    """A way to search.

    Attributes:
        method: of ``dse wafer``.
        steps: of :data:`dse.wafer.search.context.STEPS`.
        share: of the moves of a whole search.
        bounded: whether a bound is computed too.
    """

    method: str = "portfolio"
    steps: tuple[str, ...] = (COLUMNS, COMPACTION, PROTOCOLS, TREES)
    share: float = 1.0
    bounded: bool = False


FULL, SLICING_TREE, AS_PRINTED = "+ compaction", "slicing-tree annealing", "GigaPlacer as printed"
ROWS, WITH_PROTOCOLS, WITH_ANNEALING, WITH_TREES = "rows only", "+ protocols", "+ annealing", "+ slicing trees"

VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        ROWS: Variant(steps=(), share=0.0),
        WITH_PROTOCOLS: Variant(steps=(PROTOCOLS,), share=0.0),
        WITH_ANNEALING: Variant(steps=(COLUMNS, PROTOCOLS)),
        WITH_TREES: Variant(steps=(COLUMNS, PROTOCOLS, TREES)),
        FULL: Variant(bounded=True),
        SLICING_TREE: Variant(method="slicing-tree"),
        AS_PRINTED: Variant(method="gigaplacer", steps=(), share=0.0),
    }
)
"""By what they are called in tables; the first four each have one step more than the one before."""


@dataclass(frozen=True)
class Trial:
    """A search of one problem."""

    problem: WaferProblem
    variant: Variant
    moves: int
    seed: int


@dataclass(frozen=True)
class Outcome:
    """The outcome of a search: None for a placement where there is none.

    Attributes:
        placement, cost: the best, passed by the checker.
        bound: on the cost, where it was computed.
        generated, adapted: of GigaPlacer as printed, the placement before its refinements, and after that of adapters.
        search_s, proof_s: CPU seconds of the search and of the bound, on one core; they vary little with the load.
        reason: why there is nothing.
    """

    placement: WaferPlacement | None = None
    cost: Cost | None = None
    bound: float | None = None
    search_s: float = 0.0
    proof_s: float = 0.0
    reason: str = ""
    generated: WaferPlacement | None = None
    adapted: WaferPlacement | None = None

    def part(self, name: CostPart) -> float | None:
        """A part of the cost, or all of it."""
        return None if self.cost is None else float(getattr(self.cost, name))

    @property
    def total(self) -> float | None:
        """The cost."""
        return self.part("total")

    @property
    def gap(self) -> float | None:
        """Relative, to the bound."""
        return relative_gap(self.total, self.bound)


@dataclass(frozen=True)
class Searching:
    """Makes a trial, for executors. ``stop`` is called in this process alone; workers are stopped from outside."""

    stop: StopSignal = never_stop

    def __reduce__(self) -> tuple[Any, ...]:
        return Searching, ()

    def __call__(self, trial: Trial) -> dict[str, Any]:
        """What :func:`search` finds.

        Raises:
            StoppedError: the search was stopped before its end.
        """
        document = search(trial, self.stop)
        ask(self.stop)
        return document


def search(trial: Trial, stop: StopSignal = never_stop) -> dict[str, Any]:
    """What a trial finds, as the journal keeps it; compilation is not in its seconds."""
    _compile(trial.variant.method)
    problem, variant = trial.problem, trial.variant
    begun = process_time()
    moves = round(trial.moves * variant.share)
    context = SearchContext(problem, InProcessExecutor(), trial.seed, moves, stop=stop, steps=frozenset(variant.steps))
    answer, before = _answered(variant.method, context)
    searched = process_time()
    bound = cost_bound(problem, answer, stop) if variant.bounded else None
    return {
        "solution": None if answer.placement is None else placement_document(problem, answer.placement),
        "before": [placement_document(problem, each) for each in before],
        "bound": bound,
        "search_s": searched - begun,
        "proof_s": process_time() - searched,
    }


def _answered(method: str, context: SearchContext) -> tuple[SearchResult, tuple[WaferPlacement, ...]]:
    """(the answer of a method; of GigaPlacer as printed also what its placement was before each refinement)."""
    if method != VARIANTS[AS_PRINTED].method:
        return METHODS[method](context), ()
    answer = answered(context)
    return answer.result, () if answer.best is None else (answer.best.generated, answer.best.adapted)


@cache
def _compile(method: str) -> None:
    """Search a tiny problem once in every process."""
    convolution = Convolution(4, 4, 1, 1, 4, 4)
    kernels = tuple(Kernel(name, "conv", (), (), (convolution,)) for name in ("a", "b"))
    problem = WaferProblem("tiny", Wafer(20, 20, 1000), Weights(1.0, 1.0, 1.0), kernels, ((0, 1),))
    cost_bound(problem, METHODS[method](SearchContext(problem, InProcessExecutor(), moves=100)))


@dataclass(frozen=True)
class Study:
    """What is searched, and where.

    Attributes:
        problems: by name.
        run: where searches are made, and with which seed.
        moves: of annealing in every search that anneals.
    """

    problems: Mapping[str, WaferProblem]
    run: Run
    moves: int = MOVES

    def searched(self, variant: str, cases: Sequence[str] | None = None) -> dict[str, Outcome]:
        """What a variant finds for the cases (all of them for None); one that failed says why.

        Raises:
            FailedCheckError: the checker refuses a placement.
            StoppedError: the stop signal gave a reason; finished searches are in the journal.
        """
        names = list(self.problems) if cases is None else list(cases)
        trials = {name: Trial(self.problems[name], VARIANTS[variant], self.moves, self.run.seed) for name in names}
        keys = {trial: digest(document_of(trial)) for trial in trials.values()}
        documents, failed = finished(self.run, f"searches: {variant}", Searching(self.run.stop), keys)
        return {
            name: Outcome(reason=f"{name}, {variant}: {failed[trial]}")
            if trial in failed
            else _checked(self.problems[name], documents[trial])
            for name, trial in trials.items()
        }


def _checked(problem: WaferProblem, document: dict[str, Any]) -> Outcome:
    """The outcome of :func:`search`, passed by the checker once more: it may come from the journal."""
    bound, seconds = document["bound"], (document["search_s"], document["proof_s"])
    if document["solution"] is None:
        return Outcome(None, None, bound, *seconds, f"{problem.name}: no placement found")
    # Searches that earlier versions journalled have no "before".
    documents = (document["solution"], *document.get("before", ()))
    placement, *before = (placement_from_document(problem, each, JOURNAL_FILE) for each in documents)
    broken = [fault for each in (placement, *before) for fault in violations(problem, each)]
    if broken:
        raise FailedCheckError("; ".join(broken))
    generated, adapted = before or (None, None)
    return Outcome(placement, cost(problem, placement), bound, *seconds, generated=generated, adapted=adapted)

"""How far an answer is from the proven optimum: proofs are remembered, and made where that is cheap.

The proven optimum of a problem is one score for each HBM size, found by a finished exhaustive search. An answer is
measured against the optimum at its own HBM size, which is therefore an upper bound on it: the distance
``1 − score / optimum`` is never negative.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import dse
import hardware
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.codesign.evaluation.work_bound import work_bounds
from dse.codesign.formats import problem_document
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.search import exhaustive
from dse.codesign.search.choice import chosen_size
from dse.results.result import PROOF_TOLERANCE, digest
from dse.run.cache import cache_directory, source_digest
from dse.run.directory import write_text
from hardware.inputs import InputError

SCHEMA = "dse.proven/1"

_AFFORDABLE_S = 30.0
"""An exhaustive search that is predicted to take less is made after every other search."""

Optima = Mapping[int, float]
"""Proven best score by HBM size in bytes; sizes at which nothing fits are missing."""


class ProvenOptima:
    """Proven optima that earlier runs found, in files: one a problem and version of this program.

    Args:
        directory: where they lie; by default in the user's cache (:func:`dse.run.cache.cache_directory`).
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or cache_directory("proven")

    def recall(self, problem: CodesignProblem) -> Optima | None:
        """The optima of ``problem``; None where none is known, or its file is damaged."""
        path, stamp = self._place(problem)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            optima = {int(size): value for size, value in document.pop("optimum_by_hbm").items()}
            valid = document == stamp and all(type(v) is float and 0 < v < math.inf for v in optima.values())
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return None
        return optima if valid and optima and set(optima) <= set(problem.hbm_bytes) else None

    def remember(self, problem: CodesignProblem, outcome: SearchOutcome) -> None:
        """Keep what a finished exhaustive search proved; a cache that cannot be written is not a fault."""
        if not outcome.proven or outcome.stopped is not None or outcome.best is None:
            return
        path, stamp = self._place(problem)
        optima = {str(size): value for size, value in outcome.optimum_by_hbm.items()}
        try:
            write_text(path, json.dumps({**stamp, "optimum_by_hbm": optima}, indent=2) + "\n")
        except InputError:
            return

    def _place(self, problem: CodesignProblem) -> tuple[Path, dict[str, str]]:
        """The file of a problem, and what it contains in addition to the optima."""
        stamp = {
            "schema": SCHEMA,
            "problem": digest(problem_document(problem)),
            "program": source_digest(dse, hardware),
        }
        return self._directory / f"{digest(stamp).removeprefix('sha256:')}.json", stamp


@dataclass(frozen=True)
class Judgement:
    """An outcome with the bound that is known, and the proven optimum at its HBM size (None where unknown)."""

    outcome: SearchOutcome
    optimum: float | None

    def distance(self, score: float | None) -> float | None:
        """How far ``score`` is below the proven optimum, as a share of it; None where unknown."""
        if score is None or self.optimum is None:
            return None
        return max(0.0, 1 - score / self.optimum)


def judge(outcome: SearchOutcome, context: SearchContext, optima: ProvenOptima | None) -> Judgement:
    """``outcome`` of any search next to what is proven of the problem.

    A proof that ``outcome`` brings is remembered in ``optima``. Otherwise the bound comes from the optimum that is
    remembered there, or, where that is predicted to be short, from an exhaustive search that shares the store, or
    from level-1 bounds over the whole space. A search that was stopped is not followed by more work: without a
    bound of its own, it has that of the FLOPs of a batch (:mod:`dse.codesign.evaluation.work_bound`).
    """
    if outcome.best is None or not outcome.plans:
        return Judgement(outcome, None)
    problem, machines = context.problem, context.machines
    size = outcome.plans[0].hbm_bytes
    if outcome.proven:
        if optima is not None:
            optima.remember(problem, outcome)
        return Judgement(outcome, outcome.optimum_by_hbm[size])
    known = None if optima is None else optima.recall(problem)
    if known is not None and size in known:
        return _against(outcome, problem, known)
    if math.isfinite(outcome.bound):
        return Judgement(outcome, None)
    if outcome.stopped is not None:
        upper = work_bounds(JobEvaluators(problem, machines))[problem.hbm_bytes.index(size)]
        return Judgement(replace(outcome, bound=float(upper.max())), None)
    if exhaustive.predicted_seconds(problem, machines) >= _AFFORDABLE_S:
        upper = exhaustive.upper_bounds(context)[problem.hbm_bytes.index(size)]
        return Judgement(replace(outcome, bound=float(upper.max()), upper=tuple(upper.tolist())), None)
    proof = exhaustive.search(context)
    if not proof.proven:
        return Judgement(outcome, None)
    if optima is not None:
        optima.remember(problem, proof)
    judgement = _against(outcome, problem, proof.optimum_by_hbm)
    same_size = proof.plans[0].hbm_bytes == size
    return replace(judgement, outcome=replace(judgement.outcome, upper=proof.upper if same_size else ()))


def _against(outcome: SearchOutcome, problem: CodesignProblem, optima: Optima) -> Judgement:
    """``outcome`` with the proven optimum at its HBM size as its bound."""
    (size,) = {plan.hbm_bytes for plan in outcome.plans}
    proven_size = problem.hbm_bytes[chosen_size([optima.get(each, 0.0) for each in problem.hbm_bytes])]
    is_optimal = outcome.optimum_by_hbm[size] >= optima[size] * (1 - PROOF_TOLERANCE)
    return Judgement(replace(outcome, bound=optima[size], proven=is_optimal and size == proven_size), optima[size])

"""``dse codesign --space`` over chips, by the contract of a problem: :mod:`dse.codesign.contract` hands over to it."""

from collections.abc import Mapping

from dse.codesign.chips.answer import METHOD, ChipPosed, solve
from dse.codesign.chips.asked import chip_problem
from dse.codesign.chips.check import faults, is_repeated, open_claims
from dse.codesign.chips.problem import ChipProblem
from dse.codesign.chips.report import view
from dse.codesign.options import CodesignOptions
from dse.problem import Posed, ProblemType
from dse.report.view import View
from dse.results.result import Objective, Result
from dse.run.run import Run
from dse.run.tables import Tables


class ChipType(ProblemType[CodesignOptions, ChipProblem]):
    """The best chip of a space for one or several training jobs, each with its fastest plan from ``dse plan``."""

    name = "codesign"

    def pose(self, options: CodesignOptions) -> ChipPosed:
        """The models, the space and its limits."""
        problem = chip_problem(options)
        goal = Objective(name=problem.objective.per, value=None, unit=problem.objective.unit, sense="max")
        name = "+".join(model.name for model, _ in problem.models)
        return Posed(options, problem, name, dict(problem.document()), goal)

    def answered_by(self, options: CodesignOptions) -> tuple[str, ...]:
        """The exhaustive search alone."""
        del options
        return (METHOD,)

    def answer(self, posed: ChipPosed, run: Run) -> Result:
        """The best chip and plans."""
        return solve(posed, run)

    def faults(self, result: Result, posed: ChipPosed) -> list[str]:
        """Sizes, limits, rules, memory, steps, silicon and score, recomputed, and the proof where that is short."""
        return faults(result, posed, is_repeated(result))

    def open_claims(self, result: Result, posed: ChipPosed) -> Mapping[str, str]:
        """That nothing is better, and what the search saw, of many plans."""
        del posed
        return open_claims(result)

    def proof_faults(self, result: Result, posed: ChipPosed) -> list[str] | None:
        """By the search again."""
        return faults(result, posed, prove=True)

    def view(self, result: Result, posed: ChipPosed, tables: Tables) -> View:
        """The chip, its silicon and the plans."""
        del tables
        return view(posed.problem, result)


CHIPS = ChipType()

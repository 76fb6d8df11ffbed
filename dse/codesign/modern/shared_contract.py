"""``dse codesign --plans modern`` for several models, other objectives and fronts, by the contract of a problem."""

from collections.abc import Mapping

from dse.codesign.modern.answer import METHOD
from dse.codesign.modern.asked import modern_problems
from dse.codesign.modern.shared_answer import SharedPosed, SharedSpace, solve
from dse.codesign.modern.shared_check import faults, is_repeated, open_claims
from dse.codesign.modern.shared_report import view
from dse.codesign.options import CodesignOptions
from dse.problem import Posed, ProblemType
from dse.report.view import View
from dse.results.result import Objective, Result
from dse.run.run import Run
from dse.run.tables import Tables


class SharedType(ProblemType[CodesignOptions, SharedSpace]):
    """The best accelerator for one or several training jobs, each with its fastest plan from ``dse plan``."""

    name = "codesign"

    def pose(self, options: CodesignOptions) -> SharedPosed:
        """The problems and the space of architectures."""
        problems, objective = modern_problems(options), options.objective_of()
        space = SharedSpace(problems, objective, problems[0].machines(), options.pareto)
        goal = Objective(name=objective.per, value=None, unit=objective.unit, sense="max")
        return Posed(options, space, "+".join(each.name for each in problems), space.document(), goal)

    def answered_by(self, options: CodesignOptions) -> tuple[str, ...]:
        """The exhaustive search alone."""
        del options
        return (METHOD,)

    def answer(self, posed: SharedPosed, run: Run) -> Result:
        """The best architecture and plans."""
        return solve(posed, run)

    def faults(self, result: Result, posed: SharedPosed) -> list[str]:
        """Area, rules, memory, steps, joules and score, recomputed, and the proof again where that is short."""
        return faults(result, posed, is_repeated(result, posed))

    def open_claims(self, result: Result, posed: SharedPosed) -> Mapping[str, str]:
        """That nothing is better, and what the search saw, of many plans."""
        return open_claims(result, posed)

    def proof_faults(self, result: Result, posed: SharedPosed) -> list[str] | None:
        """By the search again."""
        return faults(result, posed, prove=True)

    def view(self, result: Result, posed: SharedPosed, tables: Tables) -> View:
        """The accelerator, the plans, and the front."""
        del tables
        return view(posed.problem, result)


SHARED = SharedType()

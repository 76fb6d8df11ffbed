"""``dse codesign --plans modern``, by the contract of a problem: :mod:`dse.codesign.contract` hands over to it."""

from collections.abc import Mapping

from dse.codesign.modern.answer import METHOD, ModernPosed, solve
from dse.codesign.modern.asked import modern_problem
from dse.codesign.modern.check import faults, is_affordable, open_claims
from dse.codesign.modern.problem import ModernSpace
from dse.codesign.modern.report import view
from dse.codesign.options import CodesignOptions
from dse.problem import Posed, ProblemType
from dse.report.view import View
from dse.results.result import Objective, Result
from dse.run.run import Run
from dse.run.tables import Tables


class ModernType(ProblemType[CodesignOptions, ModernSpace]):
    """The best accelerator for a training job, and its best plan from the vocabulary of ``dse plan``."""

    name = "codesign"

    def pose(self, options: CodesignOptions) -> ModernPosed:
        """The problem and the space of architectures."""
        problem = modern_problem(options)
        objective = Objective(name="throughput", value=None, unit="samples/s", sense="max")
        return Posed(options, ModernSpace(problem, problem.machines()), problem.name, problem.document(), objective)

    def answered_by(self, options: CodesignOptions) -> tuple[str, ...]:
        """The exhaustive search alone."""
        del options
        return (METHOD,)

    def answer(self, posed: ModernPosed, run: Run) -> Result:
        """The best architecture and plan."""
        return solve(posed, run)

    def faults(self, result: Result, posed: ModernPosed) -> list[str]:
        """Area, rules, memory, step and every figure, recomputed, and the proof again where that is affordable."""
        return faults(result, posed, is_affordable(posed))

    def open_claims(self, result: Result, posed: ModernPosed) -> Mapping[str, str]:
        """That nothing is better, and what the search saw, of many plans."""
        return open_claims(result, posed)

    def proof_faults(self, result: Result, posed: ModernPosed) -> list[str] | None:
        """By the search again."""
        return faults(result, posed, prove=True)

    def view(self, result: Result, posed: ModernPosed, tables: Tables) -> View:
        """The accelerator, the plan, where time and memory go, and the baselines."""
        del tables
        return view(posed.problem, result)


MODERN = ModernType()

"""``dse schedule`` as a function: problem in, checked result out."""

import time

from dse.results.result import Objective, ProblemReference, Result, digest, document_of, proven_status, relative_gap
from dse.schedule.formats import schedule_document
from dse.schedule.problem import ScheduleProblem
from dse.schedule.solve import solve


def answer(problem: ScheduleProblem, method: str = "auto", seed: int = 0) -> Result:
    """A schedule of ``problem`` by ``method``, with its proof or its gap.

    Raises:
        InputError: no such method, or a problem that the method refuses for its size.
    """
    started = time.perf_counter()
    found = solve(problem, method)
    seconds = time.perf_counter() - started
    value = found.schedule.makespan_s
    bound = min(found.bound_s, value)
    return Result(
        command="schedule",
        problem=ProblemReference(name=problem.name, digest=digest(document_of(problem))),
        status=proven_status(value, bound),
        objective=Objective(name="makespan_s", value=value, unit="s", sense="min"),
        bound=bound,
        gap=relative_gap(value, bound),
        solution=schedule_document(found.schedule, [operator.name for operator in problem.operators]),
        evaluations=1,
        seconds=seconds,
        seed=seed,
        method=found.method,
    )

"""The table of several chips: what the best configuration of each reaches, and what its times rest on."""

from collections.abc import Sequence

from dse.report.units import time_text
from dse.results.result import Result
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import plan_in

HEADERS = ("chip", "tokens/s per chip", "chips", "TTFT", "TPOT", "$/million tokens", "times", "configuration")


def row(problem: ServeProblem, result: Result) -> tuple[str, ...]:
    """One chip: output of each, means of requests, price, basis, configuration."""
    basis = rests_on(problem)
    if not result.solution:
        proof = result.infeasibility
        return ("", "", "", "", "", basis, "" if proof is None else proof.explanation)
    own = result.metrics
    dollars = own["usd_per_million_tokens"]
    price = "" if dollars is None else f"{dollars['at_cost'][0]:.3g} to {dollars['at_price'][0]:.3g}"
    return (
        f"{own['tokens_per_s_per_accelerator']:,.0f}",
        f"{own['accelerators']:,}",
        time_text(own["ttft_s"]["mean"]),
        time_text(own["tpot_s"]["mean"]),
        price,
        basis,
        plan_in(result.solution["plan"], "result").text(),
    )


def rests_on(problem: ServeProblem) -> str:
    """What the times of kernels are."""
    kernels = problem.kernels
    if kernels.is_template:
        return "derated mappings to its cores"
    if kernels.times is not None:
        timed = kernels.times.spec.chip
        return "kernels timed" if timed == problem.system.chip.name else f"kernels timed on {timed}"
    return f"shares timed on {problem.system.chip.timed_on}" if problem.system.chip.timed_on else "peak rates"


def notes(problems: Sequence[ServeProblem]) -> list[str]:
    """What a reader of the table must know before comparing its rows."""
    if len({rests_on(problem) for problem in problems}) == 1:
        return []
    return ["rows are comparable only if their times have the same basis: see the column times"]

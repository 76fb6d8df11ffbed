"""A lower bound on the step time of every plan, without looking at any."""

from dse.plan.problem import PlanProblem
from hardware.precisions import halved


def min_step_s(problem: PlanProblem) -> float:
    """Seconds of the linear layers alone, spread evenly over all devices at the fastest sustained rate.

    No plan is faster. Each multiplication of a linear layer's three passes (of a detached one's two) is done at least
    once, whatever is cut, copied or recomputed, at no more than the peak of the plan's precision or of the 16-bit
    products, times the sustained share. Microbatches pass the busiest stage in sequence, which takes as long as the
    average stage at least; attention, vector work, collectives, bubble and optimizer only add to it.
    """
    precision, rates = problem.precision, problem.system.chip.peak_flops
    peak = max(rates[each] for each in {precision, halved(precision, rates)})
    weights = problem.model.active_weights - problem.model.detached_weights / 3.0
    flops = 6.0 * weights * problem.sequence * problem.global_batch
    return flops / (problem.devices * peak * problem.stack.matrix.value)

"""The random cases of the benchmark: their size, their memory, and that they are the same each time."""

import numpy as np
import pytest

from benchmarks.choice_problems import medians
from benchmarks.sharding_cases import sharding_case
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.solve import Status, solve


@pytest.mark.parametrize("seed", range(3))
def test_cases_are_of_the_size_that_is_asked_for_and_the_same_each_time(seed):
    case = sharding_case(seed, nodes=60, edge_costs=4_000)
    assert case == sharding_case(seed, nodes=60, edge_costs=4_000)
    assert case != sharding_case(seed + 1, nodes=60, edge_costs=4_000)
    assert case.node_count == 60
    assert 3_000 < sum(costs.size for costs in case.edge_costs) <= 4_000


@pytest.mark.parametrize("seed", range(3))
def test_the_least_memory_is_that_of_a_plan_and_no_plan_needs_less(seed):
    case = sharding_case(seed, nodes=60, edge_costs=4_000, memory=1.0)
    least = evaluate(case, [int(usages.argmin()) for usages in case.usages])
    assert least.peak_usage == case.usage_limit
    assert least.is_feasible
    assert solve(sharding_case(seed, nodes=60, edge_costs=4_000, memory=0.99)).status is Status.INFEASIBLE


def test_memory_changes_the_best_plan():
    values = [solve(sharding_case(0, nodes=60, edge_costs=4_000, memory=memory)).value for memory in (1.0, 1.5, 8.0)]
    assert np.all(np.diff(values) < 0)


def test_seeds_end_with_medians_and_their_ranges():
    rows = [
        ("K", str(seed), "34,932", cost, gap, "none")
        for seed, cost, gap in ((0, "1,200", "10.01 %"), (1, "999", "3.5 %"), (2, "1,000", "4 %"))
    ]
    assert medians(rows) == ("K", "median of 3", "34,932", "1,000 (999 to 1,200)", "4 % (3.5 % to 10.01 %)", "none")

"""The batched reference cost against the plain one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.partition.check import cost_s
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.problem import PartitionProblem
from tests.partition.small import LINK_BYTES_PER_S, random_graph


@settings(deadline=None, max_examples=100)
@given(
    st.builds(random_graph, st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.05, 0.1, 0.3])),
    st.integers(1, 64),
    st.sampled_from(["throughput", "latency"]),
)
def test_costs_are_those_of_the_definition(graph, chips, objective):
    problem = PartitionProblem(graph, chips, LINK_BYTES_PER_S, objective=objective)
    found = Sampler(graph, chips).sample(seeds_of(0, 0, 8))
    costs = AnalyticalEvaluator(problem).costs(found)
    assert costs == pytest.approx([cost_s(problem, chip) for chip in found.tolist()], rel=1e-12)


def test_weights_that_do_not_fit_cost_everything():
    graph = random_graph(3, 12, 0.2)
    found = Sampler(graph, 4).sample(seeds_of(0, 0, 200))
    held = np.array([max(graph.weight_bytes[chip == number].sum() for number in range(4)) for chip in found])
    limit = float(np.median(held))
    costs = AnalyticalEvaluator(PartitionProblem(graph, 4, LINK_BYTES_PER_S, memory_bytes=limit)).costs(found)
    assert (np.isinf(costs) == (held > limit)).all()
    assert 0 < np.isinf(costs).sum() < 200

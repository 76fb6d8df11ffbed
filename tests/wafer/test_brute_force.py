"""Whole answers against all placements: kernels of a user's types, several convolutions with unequal features."""

import numpy as np
import pytest

from dse.run.executor import InProcessExecutor
from dse.wafer.answer import cost_bound
from dse.wafer.check import violations
from dse.wafer.kernels import KernelType, contest_library
from dse.wafer.packing import unpackable
from dse.wafer.problem import Convolution, Kernel, Wafer, WaferProblem, Weights
from dse.wafer.search.context import SearchContext
from dse.wafer.search.portfolio import search
from dse.wafer.shortfall import infeasibility
from tests.wafer.brute_force import min_cost
from tests.wafer.small import graph_text, problem_from

MOVES = 4000

TWO = KernelType(
    "two",
    ("f", "h", "w"),
    lambda p: [Convolution(p["h"], p["w"], 1, 1, p["f"], 2), Convolution(p["h"], p["w"], 3, 1, 2, p["f"])],
)
"""Reads f features and makes two; then reads these and makes f."""


def of_twos(*sizes, width, height, **header):
    """A chain of :data:`TWO` with (f, h, w) each."""
    nodes = [f"two[{n}] f={f} h={h} w={w} name='k{n}'" for n, (f, h, w) in enumerate(sizes, 1)]
    edges = [(f"two[{n}]", f"two[{n + 1}]") for n in range(1, len(sizes))]
    text = graph_text(nodes, edges, width=width, height=height, **header)
    return problem_from(text, contest_library().with_types([TWO]))


def random_tiny_problem(rng):
    """One to three kernels of one to three convolutions each, on a few tiles, with weights that can be zero."""
    count = int(rng.integers(1, 4))
    longest = (3, 2, 1)[count - 1]
    kinds = []
    for _ in range(int(rng.integers(1, count + 1))):
        height, width = rng.integers(1, longest + 1, 2).tolist()
        convolutions = []
        for _ in range(int(rng.integers(1, 4 if count < 3 else 3))):
            window, inputs, outputs = rng.integers(1, 4, 3).tolist()
            convolutions.append(Convolution(height, width, window, 1, inputs, outputs, int(rng.choice([1, 1, 2]))))
        kinds.append(tuple(convolutions))
    picks = [int(rng.integers(len(kinds))) for _ in range(count)]
    kernels = tuple(Kernel(f"k{n}", "user", (), (), kinds[pick]) for n, pick in enumerate(picks))
    possible = [(one, other) for other in range(count) for one in range(other)]
    edges = tuple(pair for pair in possible if rng.random() < 0.7)
    wafer = Wafer(*rng.integers(7, (21, 15, 11)[count - 1], 2).tolist(), int(rng.choice([8, 20, 1000])))
    time, distance, adapter = (float(rng.choice(each)) for each in ((0, 1, 1, 3), (0, 1, 2, 10), (0, 1, 5, 10)))
    if not time and not distance and not adapter:
        time = 1.0
    return WaferProblem("tiny", wafer, Weights(time, distance, adapter), kernels, edges)


def test_a_kernel_whose_convolutions_need_unequal_c_has_its_true_optimum():
    problem = of_twos((1, 2, 1), width=6, height=12, adapter=10, memory=1000)
    found = search(SearchContext(problem, InProcessExecutor(), moves=MOVES))
    # h=2, w=1, c=[1, 2], k=[2, 1], turned by a right angle.
    assert min_cost(problem) == 3
    assert cost_bound(problem, found) == 3
    assert found.total == 3


def test_unequal_c_of_a_kernel_that_is_joined_count_as_a_difference():
    """With f=1, equal c mean c=1: twice the time. Unequal ones cost an adapter on the edge, whatever the other has."""
    for adapter in (1, 10, 100):
        problem = of_twos((1, 2, 1), (1, 2, 1), width=12, height=12, adapter=adapter, memory=1000)
        found = search(SearchContext(problem, InProcessExecutor(), moves=MOVES))
        best = min_cost(problem, found.total)
        assert cost_bound(problem, found) <= best + 1e-9
        assert found.total == pytest.approx(best)


def test_a_square_kernel_that_is_bound_to_its_protocol_can_be_longer_to_be_centred():
    """3 × 3 tiles beside 3 × 6: with k = 2 the centres are on one line, with k = 1 half a tile apart."""
    square, block = (Convolution(1, 2, 2, 1, 3, 2),), (Convolution(3, 3, 1, 1, 2, 1), Convolution(3, 3, 3, 1, 2, 1))
    kernels = tuple(Kernel(f"k{n}", "user", (), (), each) for n, each in enumerate((square, block, square)))
    problem = WaferProblem("tiny", Wafer(8, 7, 1000), Weights(3.0, 2.0, 5.0), kernels, ((0, 1), (1, 2)))
    found = search(SearchContext(problem, InProcessExecutor(), moves=1_000_000))
    assert found.total == min_cost(problem, found.total) == 97


def test_memory_that_only_unequal_c_keep_is_no_proof_that_nothing_fits():
    """The second convolution has all of its weights in one tile unless its c is 2; the first one's c can only be 1."""
    convolutions = Convolution(1, 1, 1, 1, 1, 1), Convolution(1, 1, 8, 1, 2, 1)
    kernel = Kernel("k", "user", (), (), convolutions)
    problem = WaferProblem("tiny", Wafer(6, 3, 16), Weights(1.0, 1.0, 10.0), (kernel,), ())
    assert min_cost(problem) == 8
    assert infeasibility(problem) is None


@pytest.mark.parametrize("seed", range(3))
def test_no_bound_exceeds_the_least_cost_and_nothing_that_fits_is_called_infeasible(seed):
    rng, possible = np.random.default_rng(seed), 0
    for _ in range(6):
        problem = random_tiny_problem(rng)
        found = search(SearchContext(problem, InProcessExecutor(), moves=MOVES))
        best = min_cost(problem, None if found.placement is None else found.total)
        if best is None:
            continue
        possible += 1
        assert infeasibility(problem) is None
        assert unpackable(problem) is None
        assert cost_bound(problem, found) <= best + 1e-9
        if found.placement is not None:
            assert violations(problem, found.placement) == []
    assert possible

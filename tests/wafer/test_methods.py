"""What every method hands back: legal, priced as the checker prices it, and offered only where it is legal."""

from dataclasses import replace

import numpy as np
import pytest

from dse.run.executor import InProcessExecutor
from dse.wafer.check import cost, size_tiles, violations
from dse.wafer.methods import METHODS
from dse.wafer.problem import PlacedKernel, WaferPlacement
from dse.wafer.search.context import Incumbent, SearchContext
from dse.wafer.search.portfolio import search
from dse.wafer.shapes import shape_table
from tests.wafer.small import blocks, chain, conv_line, graph_text, problem_from


def filled():
    """Kernels that fill the height of their wafer, from its lower edge to its upper one."""
    nodes = [conv_line(number, height=2, width=2, inputs=2, outputs=2) for number in (1, 2, 3)]
    edges = [("conv[1]", "conv[2]"), ("conv[2]", "conv[3]")]
    return problem_from(graph_text(nodes, edges, width=9, height=4))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("problem", [filled(), blocks(adapter=5)], ids=["filled", "blocks"])
def test_every_method_hands_back_a_legal_placement_with_its_cost(name, problem):
    told = []
    found = METHODS[name](SearchContext(problem, InProcessExecutor(), moves=200, improved=told.append))
    assert violations(problem, found.placement) == []
    assert found.cost == cost(problem, found.placement)
    assert (told[-1].placement, told[-1].cost) == (found.placement, found.cost)


def test_a_placement_of_a_filled_wafer_can_be_moved_nowhere():
    problem = filled()
    found = METHODS["portfolio"](SearchContext(problem, InProcessExecutor(), moves=200))
    heights = [(each.y, each.y + size_tiles(each)[1]) for each in found.placement.placed]
    assert (min(low for low, _ in heights), max(high for _, high in heights)) == (0, problem.wafer.height_tiles)


@pytest.mark.parametrize("x", [0, 2, 20])
def test_an_illegal_placement_is_not_taken_however_cheap_it_is(x):
    """One on the other, one that overlaps the other, and one that is not on the wafer."""
    problem, told = chain(2, width=20, height=20), []
    incumbent = Incumbent(SearchContext(problem, InProcessExecutor(), improved=told.append), shape_table(problem))
    first = PlacedKernel(1, 1, (1,), (1,), 0, 0, "R0")
    legal, illegal = (WaferPlacement((first, replace(first, x=place))) for place in (3, x))
    incumbent.offer(illegal)
    incumbent.offer_compacted(illegal)
    assert (incumbent.best.placement, incumbent.best.total, told) == (None, np.inf, [])
    incumbent.offer(legal)
    incumbent.offer(illegal)
    assert incumbent.best.placement == legal
    assert [each.placement for each in told] == [legal]


def test_the_portfolio_offers_legal_placements_only(monkeypatch):
    offered = []
    offer, compact = Incumbent.offer, Incumbent.offer_compacted
    monkeypatch.setattr(Incumbent, "offer", lambda best, placed: offered.append(placed) or offer(best, placed))
    monkeypatch.setattr(
        Incumbent, "offer_compacted", lambda best, placed: offered.append(placed) or compact(best, placed)
    )
    for problem in (filled(), blocks(), blocks(adapter=5)):
        offered.clear()
        search(SearchContext(problem, InProcessExecutor(), moves=1000))
        assert offered
        assert all(violations(problem, each) == [] for each in offered)

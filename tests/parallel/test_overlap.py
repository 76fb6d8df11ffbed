"""Communication beside work: what hides by hand, and the laws of the best plans."""

from dataclasses import replace

import pytest

from dse.parallel.mesh import WHOLE
from dse.parallel.overlap import fetched_ahead, joined_late
from dse.parallel.plan import hidden_of, picoseconds_of, sent_by, work_of_plan
from dse.parallel.prices import Prices
from dse.parallel.solve import solve
from tests.parallel.problems import DUMPS, dump, mlp


def named(graph, flags):
    """What stands for each operation, by the name of its first result."""
    names = (graph.values[operation.results[0]].name for operation in graph.operations)
    return dict(zip(names, flags, strict=True))


def test_gradients_and_the_loss_are_joined_late_and_weights_fetched_ahead():
    graph = mlp().graph
    late, ahead = named(graph, joined_late(graph)), named(graph, fetched_ahead(graph))
    assert [name for name, is_late in late.items() if not is_late and name != "zero"] == ["h", "a", "o", "e", "d"]
    assert {name: graph.values[value].name for name, value in ahead.items() if value is not None} == {
        "h": "x", "o": "w2", "e": "y", "d": "w2", "g1": "x", "n1": "w1", "n2": "w2",
    }  # fmt: skip


def test_as_much_is_hidden_as_the_operations_work():
    """Pure data parallelism: both gradients are joined late, and nothing else is sent but the loss."""
    problem = mlp("4", overlap=True, pins={0: (WHOLE,), 1: (WHOLE,), 2: (0,), 3: (0,)})
    prices = Prices(problem)
    plan = solve(problem, prices, "linkage").plan
    joined = {
        problem.graph.values[problem.graph.operations[each.operation].results[0]].name: each.picoseconds
        for each in sent_by(problem, prices, plan)
    }
    assert joined.keys() == {"g1", "g2", "l"}
    chosen = zip(prices.priced, plan.choices, strict=True)
    work = named(problem.graph, [priced[choice].work_ps if priced else 0 for priced, choice in chosen])
    hidden = sum(min(joined[name], work[name]) for name in joined)
    assert hidden_of(problem, prices, plan) == hidden > 0
    assert picoseconds_of(problem, prices, plan) == work_of_plan(prices, plan) + sum(joined.values()) - hidden


@pytest.mark.parametrize("method", ["linkage", "exact"])
@pytest.mark.parametrize("mesh", ["4", "data=2,model=2"])
def test_the_best_plan_with_overlap_is_at_least_as_good_as_without(method, mesh):
    """No plan takes longer than without overlap, and none is faster than its work."""
    without = dump("dlrm-tiny.hlo", mesh)
    beside = replace(without, overlap=True)
    found, before = solve(beside, Prices(beside), method), solve(without, Prices(without), method)
    assert found.value == picoseconds_of(beside, Prices(beside), found.plan) == found.bound
    assert found.value <= picoseconds_of(beside, Prices(beside), before.plan) <= before.value
    assert found.value >= work_of_plan(Prices(beside), found.plan)


def test_dse_parallel_says_what_runs_beside_work(dse, tmp_path):
    answer = dse("parallel", DUMPS / "vgg-tiny.hlo", "--mesh", "4", "--overlap", "--notes", "--out", tmp_path)
    assert answer.code == 0
    assert "is overlapped" in answer.out
    assert dse("check", tmp_path / "result.json").code == 0

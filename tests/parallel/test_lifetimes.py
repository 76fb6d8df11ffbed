"""Memory over lifetimes: a step worked out by hand, the checker beside, and plans within limits that bind."""

from dataclasses import replace
from random import Random

import pytest

from dse.algorithms.pairwise.core import core_of
from dse.algorithms.pairwise.highs import MipStatus, mip
from dse.algorithms.pairwise.reduction import reduce
from dse.parallel.check import account
from dse.parallel.choice_graph import ChoiceGraph
from dse.parallel.lifetimes import lifetimes
from dse.parallel.plan import picoseconds_of, profile_of
from dse.parallel.prices import Prices
from dse.parallel.solve import solve
from tests.parallel.problems import DUMPS, dump, mlp, problem
from tests.parallel.test_plans import drawn, stated

STEPS = ["vgg-tiny.hlo", "dlrm-tiny.hlo", "rare.hlo"]


def test_a_profile_is_the_one_worked_out_by_hand():
    """Bytes: h, a and d 8,192 each; o, e and g1 2,048; g2 1,024; l 4; n1 and n2 in place of w1 and w2; q is fused with
    l, which therefore reads e.
    """
    step = mlp("1")
    prices = Prices(step)
    plan = solve(step, prices, "exact").plan
    arguments = 4 * (16 * 32 + 32 * 8 + 64 * 16 + 64 * 8)
    by_name = {
        step.graph.values[operation.results[0]].name: bytes_ - arguments
        for operation, bytes_ in zip(step.graph.operations, profile_of(step, prices, plan), strict=True)
    }
    del by_name["zero"]  # a constant may stand anywhere
    assert by_name == {
        "h": 8192,
        "a": 16384,
        "o": 8192 + 2048,
        "e": 8192 + 4096,
        "g2": 8192 + 2048 + 1024,
        "d": 8192 + 2048 + 1024,
        "g1": 8192 + 4096 + 1024,
        "n1": 4096 + 1024,
        "n2": 2048 + 1024,
        "q": 2048,
        "l": 2048 + 4,
    }


@pytest.mark.parametrize("name", STEPS)
def test_the_checker_finds_the_same_peak(name):
    step = dump(name, "data=2,model=2")
    prices, draw = Prices(step), Random(5)
    for _ in range(5):
        plan = drawn(step, prices, draw)
        assert account(step, stated(step, prices, plan)).peak_bytes == max(profile_of(step, prices, plan))


@pytest.mark.parametrize("name", STEPS)
def test_nothing_is_read_after_it_has_gone(name):
    """Along what is fused, too: its reader reads what it was made from."""
    step = dump(name)
    stored = Prices(step).stored
    ends = {}
    for operation, (_, end) in zip(step.graph.operations, lifetimes(step.graph, stored), strict=True):
        ends.update(dict.fromkeys(operation.results, end))
    sources = {}
    for number, operation in enumerate(step.graph.operations):
        read = set().union(*(sources.get(value, {value}) for value in operation.operands))
        assert all(ends.get(value, number + 1) > number for value in read)
        for value in operation.results:
            sources[value] = {value} if stored[value] else read


@pytest.mark.parametrize(("mesh", "share"), [("4", 0.99), ("4", 0.8), ("4", 0.6), ("data=2,model=2", 0.6)])
def test_a_limit_at_every_operation_is_kept_at_the_least_cost(mesh, share):
    """The mixed-integer program has all memory rows at once; the search adds those that bind."""
    free = mlp(mesh)
    prices = Prices(free)
    best = solve(free, prices, "exact")
    limit = int(share * max(profile_of(free, prices, best.plan)))
    limited = replace(free, state_bytes=limit, activations=True)
    found = solve(limited, prices, "exact")
    reduction = reduce(core_of(ChoiceGraph(limited, prices).pairwise()))
    if reduction is None:
        assert found.plan is None
        assert found.min_state_bytes > limit
        return
    answer = mip(reduction.core, 10_000)
    assert (answer.status is MipStatus.INFEASIBLE) == (found.plan is None)
    if found.plan is not None:
        assert max(profile_of(limited, prices, found.plan)) <= limit
        assert found.bound == found.value == picoseconds_of(limited, prices, found.plan) >= best.value
        assert found.value == round(answer.bound) + reduction.constant
        assert account(limited, stated(limited, prices, found.plan)).faults == []


def test_a_plan_over_the_limit_is_refused_only_where_activations_count():
    step = mlp("4")
    prices = Prices(step)
    plan = solve(step, prices, "exact").plan
    peak = max(profile_of(step, prices, plan))
    for limit, faults in ((peak, 0), (peak - 1, 1)):
        limited = replace(step, state_bytes=limit, activations=True)
        assert len(account(limited, stated(limited, prices, plan)).faults) == faults
        assert account(replace(limited, activations=False), stated(limited, prices, plan)).faults == []


def test_a_while_loop_keeps_what_every_pass_reads():
    """What goes into a loop is there until it ends, and what a pass makes is not counted for each pass."""
    step = problem(dump("rare.hlo").graph, "1")
    prices = Prices(step)
    of = lifetimes(step.graph, prices.stored)
    begins = [n for n, operation in enumerate(step.graph.operations) if operation.opcode == "while-begin"]
    ends = [n for n, operation in enumerate(step.graph.operations) if operation.opcode == "while-end"]
    makers = {value: n for n, operation in enumerate(step.graph.operations) for value in operation.results}
    held_on = [
        of[makers[value]][1] > end
        for begin, end in zip(begins, ends, strict=True)
        for value in step.graph.operations[begin].operands
        if value in makers and not step.graph.values[value].constant
    ]
    assert held_on
    assert all(held_on)


def test_dse_parallel_counts_activations_and_says_how_much_is_missing(dse, tmp_path):
    step = DUMPS / "vgg-tiny.hlo"
    found = dse("parallel", step, "--mesh", "4", "--activations", "--notes", "--out", tmp_path / "a")
    assert found.code == 0
    assert "peak of the step" in found.out
    assert dse("check", tmp_path / "a" / "result.json").code == 0
    missing = dse("parallel", step, "--mesh", "4", "--activations", "--memory-gb", "1e-6")
    assert missing.code == 1
    assert "The step needs at least" in missing.out
    wrong = dse("parallel", step, "--activations", "--method", "linkage")
    assert wrong.code == 2
    assert "must be given with --method exact" in wrong.err

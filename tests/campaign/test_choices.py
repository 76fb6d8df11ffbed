"""Choices by hand: ratios, regret, weights, baselines, fronts, and the order of work."""

import math
from itertools import product

import pytest

from dse.campaign.axes import axis_of
from dse.campaign.choices import Grid
from dse.campaign.front import front
from dse.campaign.order import expected_s, in_order
from dse.campaign.problem import AxisValue, Baseline, Campaign, Cell
from dse.campaign.rows import OPEN, Row


def row(value, sense="min", seconds=1.0, **figures):
    status = "infeasible" if value is None else "optimal"
    return Row(status, objective="step_s", unit="s", sense=sense, value=value, figures=figures, seconds=seconds)


def campaign(chips, models, baselines=(), **changed):
    """A choice of chips for models; cells are in the order of ``chips``, and of models for each."""
    axes = (axis_of("f", "on", list(chips)), axis_of("f", "model", list(models)))
    cells = [Cell(places) for places in product(range(len(chips)), range(len(models)))]
    cells += [Cell((-1, model), number) for number in range(len(baselines)) for model in range(len(models))]
    bases = tuple(Baseline(name, (AxisValue(name, {"on": name}),)) for name in baselines)
    return Campaign("f", "c", {}, axes, cells, (0,), bases, **changed)


def choices(grid):
    return {each["choice"][0]: each for each in grid.metrics()["choices"]}


def test_regret_is_the_ratio_to_the_best_under_each_condition():
    grid = Grid(campaign("ab", "xy"), [row(1.0), row(8.0), row(2.0), row(2.0)])
    a, b = choices(grid)["a"], choices(grid)["b"]
    assert (a["best"], a["max_ratio"], b["best"], b["max_ratio"]) == (1, 4.0, 1, 2.0)
    assert (a["mean_ratio"], b["mean_ratio"]) == (pytest.approx(2.0), pytest.approx(math.sqrt(2)))
    assert grid.metrics()["least_regret"] == grid.metrics()["least_max_regret"] == ["b"]


def test_what_is_maximised_is_the_other_way_round():
    grid = Grid(campaign("ab", "x"), [row(10.0, "max"), row(4.0, "max")])
    assert (choices(grid)["a"]["mean_ratio"], choices(grid)["b"]["mean_ratio"]) == (1.0, 2.5)


def test_the_best_may_be_zero():
    grid = Grid(campaign("ab", "xy", ["old"]), [row(0.0), row(2.0), row(1.0), row(1.0), row(2.0), row(0.0)])
    a, b, old = (choices(grid)[name] for name in ("a", "b", "old"))
    assert (a["answered"], a["best"], a["mean_ratio"]) == (2, 1, pytest.approx(math.sqrt(2)))
    assert (b["answered"], b["best"], b["mean_ratio"], b["max_ratio"]) == (2, 1, None, None)
    assert (old["answered"], old["mean_ratio"], a["over"]["old"], old["over"]["old"]) == (2, None, None, None)
    assert grid.metrics()["least_regret"] == ["a"]
    assert grid.best([(0,)]).choice == (0,)


def test_weights_count():
    values = [row(1.0), row(8.0), row(2.0), row(2.0)]
    heavy = Grid(campaign("ab", "xy", weights={1: {"x": 5.0}}), values)
    assert heavy.metrics()["least_regret"] == ["a"]
    assert choices(heavy)["a"]["mean_ratio"] == pytest.approx(4 ** (1 / 6))


def test_a_choice_with_an_open_condition_has_no_mean():
    grid = Grid(campaign("ab", "xyz"), [row(1.0), row(None), row(None), row(2.0), row(2.0), row(None)])
    a, b = choices(grid)["a"], choices(grid)["b"]
    assert (a["answered"], a["mean_ratio"]) == (1, None)
    assert (b["answered"], b["mean_ratio"]) == (2, pytest.approx(math.sqrt(2)))
    assert grid.metrics()["least_regret"] == ["b"]
    assert grid.best([(0,)]).choice == (0,)
    assert grid.best([(2,)]) is None


def test_baselines_are_measured_and_never_the_best():
    grid = Grid(campaign("ab", "x", ["old"]), [row(4.0), row(2.0), row(1.0)])
    assert choices(grid)["old"] | {"over": {}} == {
        "choice": ["old"], "baseline": True, "answered": 1, "best": 1, "mean_ratio": 0.5, "max_ratio": 0.5, "over": {},
    }  # fmt: skip
    assert choices(grid)["a"]["over"] == {"old": 4.0}
    assert grid.metrics()["least_regret"] == ["b"]


def test_values_of_different_objectives_are_not_compared():
    other = Row("optimal", objective="cost", unit="usd", sense="min", value=1.0)
    assert choices(Grid(campaign("ab", "x"), [row(4.0), other]))["a"]["answered"] == 0


def test_a_front_is_one_of_each_condition():
    columns = (("value", "min"), ("cost", "min"))
    rows = [
        row(1.0, cost=9.0),
        row(5.0, cost=9.0),
        row(2.0, cost=3.0),
        row(6.0, cost=9.0),
        row(3.0, cost=4.0),
        row(1.0),
    ]
    assert front(campaign("abc", "xy", pareto=columns), rows) == [(0, (1.0, 9.0)), (1, (5.0, 9.0)), (2, (2.0, 3.0))]


def test_the_largest_expected_work_comes_first():
    grid = campaign("abc", "xyz")
    rows = [OPEN] * 9
    drawn = in_order(grid, range(9), rows)
    seconds = {"a": 1.0, "b": 10.0, "c": 3.0, "x": 1.0, "y": 2.0, "z": 5.0}
    order = []
    for number in drawn:
        order.append(number)
        labels = [value.label for value in grid.values(grid.cells[number])]
        rows[number] = row(1.0, seconds=math.prod(seconds[label] for label in labels))
    assert sorted(order) == [*range(9)]
    assert order[:5] == [0, 1, 2, 3, 6]
    assert order[5] == 5  # b and z
    expected = expected_s(grid, range(9), range(9), rows)
    assert expected == pytest.approx([each.seconds for each in rows])

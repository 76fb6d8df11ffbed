"""The pictures of a plan: every trained tensor has its bytes and its split, and memory is that of the profile."""

from dse.parallel.charts import memory_over_step, split_text, tensors_by_split
from dse.parallel.mesh import WHOLE
from dse.parallel.plan import profile_of, state_bytes_of
from dse.parallel.prices import Prices
from dse.parallel.solve import solve
from dse.report.chart_plotly import figure_of
from tests.parallel.problems import dump, mlp


def test_every_trained_tensor_is_drawn_once_inside_its_part_with_its_bytes():
    problem = dump("vgg-tiny.hlo", "data=2,model=2")
    splits = {
        argument.name: [[] for _ in problem.graph.values[argument.value].dims] for argument in problem.graph.arguments
    }
    splits[problem.graph.trainable[0].name][0] = ["model"]
    chart = tensors_by_split(problem, splits)
    assert chart.title.endswith("mostly by dimension 0 by model")
    drawn = figure_of(chart)
    tree = drawn.data[0]
    size_of = dict(zip(tree.ids, tree.values, strict=True))
    assert len(size_of) == len(tree.ids)
    inside = set(tree.parents)
    leaves = {each: size for each, size in size_of.items() if each not in inside}
    assert sum(leaves.values()) == sum(problem.graph.values[each.value].size_bytes for each in problem.graph.trainable)
    assert len(leaves) == len(problem.graph.trainable)
    for path in inside - {""}:
        assert size_of[path] == sum(
            size for each, size, parent in zip(tree.ids, tree.values, tree.parents, strict=True) if parent == path
        )
    assert [trace.name for trace in drawn.data[1:]] == ["whole", "dimension 0 by model"]
    assert split_text([["data", "model"], []]) == "dimension 0 by data and model"


def test_memory_is_drawn_at_every_operation_with_the_limit_where_it_is_near():
    problem = mlp("4", state_bytes=10_000)
    prices = Prices(problem)
    plan = solve(problem, prices, "exact").plan
    profile = profile_of(problem, prices, plan)
    state = state_bytes_of(problem, plan.arguments)
    drawn = memory_over_step(problem, profile, state)
    assert f"at operation {profile.index(max(profile))} of {len(profile)}" in drawn.title
    whole, arguments, limit = drawn.marks
    assert [round(size * 1024) for size in whole.y] == profile  # the axis is in KB
    assert {round(size * 1024) for size in arguments.y} == {state}
    assert limit.name.startswith("limit, ")
    far = memory_over_step(mlp("4", state_bytes=10**9, pins={0: (WHOLE,)}), profile, state)
    assert len(far.marks) == 2

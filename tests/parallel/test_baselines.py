"""Plans that need no search: legal, priced as any plan, and split as Megatron and FSDP split."""

from collections import Counter

import pytest

import dse
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.baselines import baselines, unlimited
from dse.parallel.check import account
from dse.parallel.formats import plan_document, stated_from_document
from dse.parallel.mesh import WHOLE
from dse.parallel.plan import picoseconds_of, sent_by
from dse.parallel.prices import Prices
from dse.parallel.solve import solve
from tests.parallel.problems import DUMPS, MLP, dump, mlp, problem


def sent(problem, prices, plan):
    """How often each kind of collective runs for each cause."""
    runs = Counter()
    for each in sent_by(problem, prices, plan):
        runs[each.collective.kind, each.cause] += each.times
    return dict(runs)


@pytest.mark.parametrize(("mesh", "overlap"), [("2", True), ("data=2,model=2", True), ("pods=2,data=2,model=2", False)])
@pytest.mark.parametrize("name", ["vgg-tiny.hlo", "dlrm-tiny.hlo", "rare.hlo"])
def test_baselines_are_legal_and_priced_as_any_plan(name, mesh, overlap):
    problem = dump(name, mesh, state_bytes=1, overlap=overlap)
    prices = Prices(problem)
    for plan in baselines(problem, prices).values():
        found = account(unlimited(problem), stated_from_document(problem, plan_document(problem, prices, plan), ""))
        assert found.faults == []
        assert found.step_ps == picoseconds_of(problem, prices, plan)


def test_two_layers_are_split_by_columns_then_by_rows():
    problem = mlp("4")
    prices = Prices(problem)
    plan = baselines(problem, prices)["Megatron"]
    assert plan.arguments == ((1,), (0,), (WHOLE,), (WHOLE,))
    assert sent(problem, prices, plan) == {("all_reduce", "terms"): 1}


def test_megatron_splits_the_batch_along_the_outer_axes():
    problem = mlp("data=2,model=4")
    plan = baselines(problem, Prices(problem))["Megatron"]
    assert plan.arguments == ((WHOLE, 1), (WHOLE, 0), (0, WHOLE), (0, WHOLE))


def test_a_dimension_of_weights_is_no_batch():
    text = MLP.replace("f32[64,", "f32[63,").replace("f32[64]", "f32[63]")
    posed = problem(step_graph(parse_hlo(text, "mlp.hlo"), "mlp.hlo"), "4")
    assert [*baselines(posed, Prices(posed))] == ["Megatron"]


def test_fsdp_gathers_weights_where_they_are_taken_and_scatters_gradients():
    problem = mlp("4")
    prices = Prices(problem)
    plan = baselines(problem, prices)["FSDP"]
    assert plan.arguments == ((0,), (0,), (0,), (0,))
    # w1 is taken by one product, w2 by one forward and one backward; the loss alone is all-reduced.
    expected = {("all_gather", "resharding"): 3, ("reduce_scatter", "terms"): 2, ("all_reduce", "terms"): 1}
    assert sent(problem, prices, plan) == expected


def test_fsdp_splits_the_first_dimension_that_all_devices_divide():
    problem = dump("vgg-tiny.hlo", "4")
    plan = baselines(problem, Prices(problem))["FSDP"]
    for argument, layout in zip(problem.graph.arguments, plan.arguments, strict=True):
        if argument.role != "input":
            dims = problem.graph.values[argument.value].dims
            assert layout == (next((dim for dim, size in enumerate(dims) if size % 4 == 0), WHOLE),)


def test_the_layers_of_vgg_are_split_as_the_paper_counts_them():
    problem = dump("vgg-tiny.hlo", "2")
    plan = baselines(problem, Prices(problem))["Megatron"]
    layouts = dict(zip((each.name for each in problem.graph.arguments), plan.arguments, strict=True))
    split = {name: layout for name, layout in layouts.items() if name.startswith("parameters") and layout != (WHOLE,)}
    assert split == {
        "parameters['fc1']['kernel']": (1,),
        "parameters['fc1']['bias']": (0,),
        "parameters['fc2']['kernel']": (0,),
        "parameters['predictions']['kernel']": (1,),
        "parameters['predictions']['bias']": (0,),
    }


@pytest.mark.parametrize(("mesh", "place"), [("data=1,model=4", 0), ("data=4,model=1", 1)])
def test_an_axis_of_one_device_changes_nothing(mesh, place):
    def beside(layouts):
        return tuple((*layout[:place], WHOLE, *layout[place:]) for layout in layouts)

    alone, posed = mlp("4"), mlp(mesh)
    prices = Prices(alone), Prices(posed)
    plans, wider = baselines(alone, prices[0]), baselines(posed, prices[1])
    for name in ("data parallel", "FSDP") if place else plans:
        assert wider[name].arguments == beside(plans[name].arguments)
        assert picoseconds_of(posed, prices[1], wider[name]) == picoseconds_of(alone, prices[0], plans[name])
    for method in ("exact", "linkage"):
        found, more = (solve(*each, method) for each in zip((alone, posed), prices, strict=True))
        assert more.value == found.value
        assert {layout[place] for layout in more.plan.arguments} == {WHOLE}


def test_a_baseline_that_was_altered_after_the_answer_is_refused():
    answer = dse.parallel(str(DUMPS / "vgg-tiny.hlo"), mesh="4")
    assert answer.check() == []
    answer.result.metrics["baselines"]["FSDP"]["step_s"] *= 3
    assert any("baselines" in fault for fault in answer.check())

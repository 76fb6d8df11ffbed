"""Profiles of training steps: a small one by hand, laws that hold for all, and several front ends."""

import re

import numpy as np
import pytest

from dse.importer.hlo.file import read_module
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.pipeline.backward import backward_of
from dse.parallel.pipeline.forward import forward_of
from dse.parallel.pipeline.profiling import first_results, profile_of
from dse.parallel.plan import Plan, work_of_plan
from dse.parallel.prices import Prices
from dse.reproduce.automap.models import step_of
from hardware.inputs import InputError
from tests.importer.hlo.test_stablehlo import STABLEHLO, graph_of_text
from tests.parallel.problems import DEVICE, DUMPS, MLP, mlp, problem

STEPS = ["vgg-tiny.hlo", "vgg-tiny.opt.hlo", "dlrm-tiny.hlo", "rare.hlo", "rare.opt.hlo"]
ARRAYS = ("forward_s", "backward_s", "cut_bytes", "weight_bytes", "variables", "stash_bytes")


def graph_of(name):
    return step_graph(read_module(DUMPS / name), name)


def edited(*changes):
    text = MLP
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return step_graph(parse_hlo(text, "mlp"), "mlp")


def test_a_small_step_by_hand():
    of = profile_of(mlp().graph, DEVICE)
    profile = of.profile
    assert first_results(mlp().graph, of.points) == ["h", "a", "o", "e", "q", "l"]
    assert profile.cut_bytes.tolist() == [0, 8192, 8192, 2048, 2048, 2048, 0]
    assert profile.weight_bytes.tolist() == [2048, 0, 1024, 0, 0, 0]
    assert profile.variables.tolist() == [1, 0, 1, 0, 0, 0]
    assert profile.stash_bytes.tolist() == [0, 8192, 0, 2048, 0, 0], "what gradients of w2 and of a read"
    assert profile.shared == of.unused == ()
    product_s = 2 * 64 * 16 * 32 / 1e9
    assert profile.forward_s[0] == product_s
    assert profile.backward_s.tolist() == [product_s, 0, 0, pytest.approx(2 * 2 * 64 * 32 * 8 / 1e9), 0, 0]
    assert of.update_s > 0


@pytest.mark.parametrize("name", STEPS)
def test_everything_of_a_step_is_in_one_place(name):
    graph = graph_of(name)
    of, whole = profile_of(graph, DEVICE), problem(graph, "1")
    nothing = Plan((0,) * len(graph.operations), (whole.mesh.whole,) * len(graph.arguments))
    total_s = of.profile.forward_s.sum() + of.profile.backward_s.sum() + of.update_s
    assert total_s == pytest.approx(work_of_plan(Prices(whole), nothing) * 1e-12, rel=1e-9)
    trained = sum(graph.values[each.value].size_bytes for each in graph.trainable if each.name not in of.unused)
    assert of.profile.weight_bytes.sum() == trained
    assert of.profile.stage_variables(range(of.profile.points)) == len(graph.trainable) - len(of.unused)
    assert of.profile.cut_bytes[[0, -1]].tolist() == [0, 0]
    assert (of.profile.cut_bytes[1:-1] > 0).all()
    assert of.profile.stash_bytes.sum() > 0


@pytest.mark.parametrize("name", STEPS)
def test_points_follow_what_they_take_and_loops_are_whole(name):
    graph = graph_of(name)
    forward = forward_of(graph)
    for value, takers in forward.taken_at.items():
        assert all(forward.made_at[value] < taker for taker in takers)
    inside = [unit for unit in forward.points if graph.operations[unit].repeats > 1]
    assert not inside, "a cut would fall into a loop"


def test_the_backward_pass_stands_at_the_layers_that_it_belongs_to():
    graph = step_of("t5-6")
    forward = forward_of(graph)
    at = {True: 0, False: 0}
    for unit, place in backward_of(forward).place.items():
        own, other = (
            re.search(r"(en|de)coder/layer\d+", graph.operations[each].label) for each in (unit, forward.points[place])
        )
        if own and other:
            at[own.group() == other.group()] += 1
    assert at[True] > 1000
    assert at[False] < 0.02 * at[True]


def test_tensors_that_several_layers_read_are_shared():
    graph = step_of("t5-6")
    profile = profile_of(graph, DEVICE).profile
    shared = {each.names: each for each in profile.shared}
    table = shared["parameters['embedding']",]
    assert len(table.readers) == 3  # the words of both sides, and the logits
    assert len(shared["parameters['encoder']['bias']",].readers) == 6
    last = range(table.readers[-1], profile.points)
    assert profile.stage_weight_bytes(last) >= table.weight_bytes
    whole = range(profile.points)
    assert profile.stage_weight_bytes(whole) == profile.weight_bytes.sum()


def test_what_is_taken_late_is_made_late():
    """The decoder's embedding is looked up at the beginning of the step, but not sent along the encoder."""
    graph = step_of("t5-6")
    forward = forward_of(graph)
    labels = [graph.operations[unit].label for unit in forward.points]
    encoder = [place for place, label in enumerate(labels) if "encoder/layer04" in label]
    one = 16 * 512 * 512 * 4
    assert profile_of(graph, DEVICE).profile.cut_bytes[encoder[0]] == one


def test_front_ends_agree():
    text, stable = profile_of(mlp().graph, DEVICE), profile_of(graph_of_text(STABLEHLO), DEVICE)
    for name in ARRAYS:
        assert getattr(text.profile, name).tolist() == getattr(stable.profile, name).tolist()
    text, stable = (profile_of(graph_of(name), DEVICE).profile for name in ("rare.hlo", "rare.mlir"))
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(text, name).sum(), getattr(stable, name).sum(), rtol=1e-3)


def test_a_module_of_torch_has_the_profile_of_the_same_step_in_hlo():
    torch = pytest.importorskip("torch")
    from dse.importer.torch.step import Training, on_meta, step_of_module
    from tests.importer.torch.steps import Perceptron

    inputs = torch.empty(64, 16), torch.empty(64, 8)
    graph = step_of_module(on_meta(Perceptron(biased=False)), inputs, Training("test"), "perceptron")
    traced, text = profile_of(graph, DEVICE).profile, profile_of(mlp().graph, DEVICE).profile
    for name in ("weight_bytes", "variables"):
        assert [each for each in getattr(traced, name) if each] == [each for each in getattr(text, name) if each]
    assert traced.cut_bytes.max() == text.cut_bytes.max()
    assert set(text.cut_bytes.tolist()) <= set(traced.cut_bytes.tolist())


def test_a_larger_batch_has_more_of_everything_but_weights():
    profile = profile_of(mlp().graph, DEVICE).profile
    twice = profile.of_batch(2)
    for name in ("forward_s", "backward_s", "cut_bytes", "stash_bytes"):
        assert (getattr(twice, name) == 2 * getattr(profile, name)).all()
    assert (twice.weight_bytes == profile.weight_bytes).all()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            [("f32[64,8], f32[])", "f32[64,8])"), (", f32[]) tuple(n1, n2, l)", ") tuple(n1, n2)")],
            "must return its loss",
        ),
        ([("batch['", "params['")], "depends on trained tensors and inputs"),
    ],
)
def test_a_step_that_cannot_be_cut(changes, rule):
    changes = [each for each in changes if each[0] in MLP]
    with pytest.raises(InputError, match=rule):
        forward_of(edited(*changes))


def test_a_norm_of_gradients_is_not_the_loss():
    graph = edited(
        ("  ROOT t = (f32[16,32], f32[32,8], f32[]) tuple(n1, n2, l)\n",
         "  s = f32[16,32] multiply(g1, g1)\n"
         "  norm = f32[] reduce(s, zero), dimensions={0,1}, to_apply=add\n"
         "  ROOT t = (f32[16,32], f32[32,8], f32[], f32[]) tuple(n1, n2, norm, l)\n"),
    )  # fmt: skip
    assert first_results(graph, profile_of(graph, DEVICE).points)[-1] == "l"

"""The plans that a search tries, against their definition in docs/method/plan.md; what is legal says the checker."""

from itertools import product
from math import ceil

import pytest

from dse.plan.check import illegal
from dse.plan.constraints import ALL_DEVICES, DIVIDING_BATCH, DIVIDING_WIDTHS, relaxed
from dse.plan.model import Transformer
from dse.plan.search.vocabulary import all_plans
from dse.plan.training_plan import PIPELINE_INSIDE, USUAL_ORDER
from tests.plan.problems import plan, problem

SMALL = {"name": "small", "layers": 3, "hidden": 512, "heads": 4, "vocabulary": 32000, "sequence": 512}
SPARSE = {"active": 2, "width": 512}
MODELS = {
    "dense": Transformer(**SMALL, kv_heads=2, feed_forward=2048),
    "experts": Transformer(**SMALL, experts={"routed": 4, **SPARSE}),
    "three experts": Transformer(**SMALL | {"heads": 3}, head_width=96, experts={"routed": 3, **SPARSE}),
}
WHOLE_LAYERS = ("full", "full/2")
"""Of three layers no mode makes every fourth one again."""
MODES = {
    "dense": ("none", "selective", "layernorm", "mlp", "layernorm+mlp", *WHOLE_LAYERS),
    "experts": (
        *("none", "selective", "moe_act", "layernorm", "moe_act+layernorm", "moe", "layernorm+moe"),
        *WHOLE_LAYERS,
    ),
}


def vocabulary(posed, modes):
    """All legal plans of the definition, with chunks of one size and what is not known to be no better."""
    widths, sizes = range(1, posed.devices + 1), range(1, posed.global_batch + 1)
    meshes = [
        mesh
        for mesh in product(widths, (False, True), widths, widths, widths, widths)
        if mesh[0] * mesh[2] * mesh[4] * mesh[5] <= posed.devices
    ]
    keys = ("tensor", "sequence_parallel", "context", "expert", "data", "pipeline")
    for mesh, order, chunks, size in product(meshes, (USUAL_ORDER, PIPELINE_INSIDE), (1, 2, 3), sizes):
        one = plan(**dict(zip(keys, mesh, strict=True)), order=order, interleave=chunks, microbatch=size)
        is_alike = order == PIPELINE_INSIDE and 1 in (one.data, one.pipeline)
        if is_alike or ceil(posed.model.layers / one.pipeline) % chunks or illegal(posed, one):
            continue
        ranks = [one.context * one.data]
        if posed.model.experts is not None:
            ranks.append(one.tensor * one.context * one.data // one.expert)
        for zero, copies in product(range(4), widths):
            if zero and copies >= max(ranks):
                continue
            changed = one.document() | {"zero": zero, "zero_copies": copies}
            shared = type(one)(**changed)
            if not illegal(posed, shared):
                yield from (type(one)(**changed | {"recompute": mode}) for mode in modes)


@pytest.mark.parametrize(
    ("kind", "devices", "without"),
    [
        ("dense", 4, ""),
        ("experts", 4, ""),
        ("experts", 2, ""),
        ("dense", 3, ALL_DEVICES),
        # Widths that divide neither heads nor experts, and one that is as many as there are.
        ("three experts", 2, DIVIDING_WIDTHS),
        ("three experts", 3, DIVIDING_WIDTHS),
    ],
)
def test_every_plan_of_the_vocabulary_is_tried_once(kind, devices, without):
    posed = relaxed(problem(MODELS[kind], devices=devices, batch=devices, sequence=384), without)
    every = all_plans(posed)
    tried = [every.plan(number) for number in range(every.count)]
    expected = [*vocabulary(posed, MODES[kind.removeprefix("three ")])]
    assert {*tried} == {*expected}
    assert len(tried) == len(expected)


@pytest.mark.parametrize("data", [1, 2])
def test_microbatches_of_any_size_are_tried_where_they_need_not_divide_the_batch(data):
    """Of the sizes with one number of microbatches, the smallest."""
    posed = relaxed(problem(MODELS["dense"], devices=2, batch=13, sequence=512, data=data, zero=0), DIVIDING_BATCH)
    samples = {1: 13, 2: 7}[data]
    tried = {*all_plans(posed).microbatch.tolist()}
    assert tried == {*{ceil(samples / size): size for size in range(samples, 0, -1)}.values()}
    assert tried > {size for size in range(1, samples + 1) if samples % size == 0}

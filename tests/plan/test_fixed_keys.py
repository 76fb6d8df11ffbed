"""What is fixed of a plan has an effect in the answer, whichever keys are open."""

from dataclasses import fields, replace

import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.check_mesh import Mesh, members
from dse.plan.idle_settings import idle_settings
from dse.plan.model import Transformer
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.search.vocabulary import all_plans
from dse.plan.training_plan import CHOSEN_KEYS, PIPELINE_INSIDE, SETTINGS, TrainingPlan
from tests.plan.problems import plan, problem

SIZES = {"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 1024, "sequence": 512, "feed_forward": 1024}
MODELS = {
    "dense": Transformer(name="dense", **SIZES),
    "experts": Transformer(name="experts", **SIZES, experts={"routed": 4, "active": 2, "width": 256}),
}
BASE = plan(
    tensor=2, sequence_parallel=True, data=2, pipeline=2, interleave=2, zero=3, microbatch=1, recompute="full",
)  # fmt: skip
"""On eight devices: every key that leaves a choice has one that is not plain."""

NOT_PLAIN = {
    "tensor": [{}],
    "sequence_parallel": [{}],
    "context": [{"context": 2, "tensor": 1, "sequence_parallel": False}],
    "expert": [{"expert": 2}],
    "data": [{}],
    "pipeline": [{}],
    "interleave": [{}],
    "schedule": [{"schedule": "gpipe", "interleave": 1}],
    "zero": [{"zero": stage} for stage in (1, 2, 3)],
    "microbatch": [{"microbatch": 2}],
    "recompute": [{"recompute": mode} for mode in ("selective", "layernorm", "op", "full", "full/2")],
    "zero_copies": [{"data": 4, "tensor": 1, "sequence_parallel": False, "zero_copies": 2}],
    "order": [{"order": PIPELINE_INSIDE}],
    "first_layers": [{"first_layers": 1, "interleave": 1}],
    "last_layers": [{"last_layers": 1, "interleave": 1}],
}
"""Values of each key that do something, with what they need of other keys."""


def shares(each: TrainingPlan) -> bool:
    """Whether a ZeRO stage above 0 shares anything out in a model without experts."""
    return members(Mesh(each).sharing()) > 1


def has_effect(key: str, each: TrainingPlan) -> bool:
    """Whether a plan does what its value of a key says, by the definition in docs/method/plan.md."""
    match key:
        case "zero" | "zero_copies":
            return shares(each)
        case "sequence_parallel":
            return each.tensor > 1
        case "schedule" | "interleave" | "first_layers" | "last_layers":
            return each.pipeline > 1
        case "recompute":
            posed = problem(MODELS["dense"], devices=each.devices, batch=16, sequence=512)
            plain = plan_costs(posed, replace(each, expert=1, recompute="none")).memory
            return plan_costs(posed, replace(each, expert=1)).memory != plain
        case _:
            return True  # a width, a number of samples or an order is what it is


def test_every_key_that_is_chosen_has_values_here():
    assert {*NOT_PLAIN} == {*CHOSEN_KEYS}
    assert {*CHOSEN_KEYS} | {*SETTINGS} == {each.name for each in fields(TrainingPlan)}


PAIRS = [
    (key, number, free) for key, changes in NOT_PLAIN.items() for number in range(len(changes)) for free in CHOSEN_KEYS
]


@pytest.mark.parametrize(("key", "number", "free"), [each for each in PAIRS if each[0] != each[2]])
def test_an_open_key_does_not_undo_a_fixed_one(key, number, free):
    model = MODELS["experts" if key == "expert" else "dense"]
    base = replace(BASE, **NOT_PLAIN[key][number])
    mesh = {"tensor", "context", "data", "pipeline"}
    # An axis alone leaves no choice: all of the other ones are open with it.
    open_keys = mesh - {key} | {"sequence_parallel"} - {key} if free in mesh else {free}
    given = {name: getattr(base, name) for name in CHOSEN_KEYS if name not in open_keys or name == key}
    posed = problem(model, devices=8, batch=16, sequence=512, **given)
    assert illegal(posed, base) == []
    assert has_effect(key, base)
    found = enumerate_plans(posed)
    assert found.best is not None
    for each in (found.best, found.least, *found.front):
        assert getattr(each.plan, key) == getattr(base, key)
        assert has_effect(key, each.plan), each.plan.text()


@pytest.mark.parametrize(("key", "number"), [each[:2] for each in PAIRS if each[2] == "tensor"])
def test_all_open_keys_do_not_undo_a_fixed_one(key, number):
    value = getattr(replace(BASE, **NOT_PLAIN[key][number]), key)
    posed = problem(
        MODELS["experts" if key == "expert" else "dense"], devices=8, batch=16, sequence=512, **{key: value}
    )
    plans = all_plans(posed)
    assert plans.count > 0
    if posed.model.experts is None:
        assert all(has_effect(key, plans.plan(position)) for position in range(0, plans.count, 7))


def test_weights_are_shared_out_where_that_is_asked_for_and_copies_are_open():
    model = Transformer(
        name="four", layers=4, hidden=2048, heads=16, feed_forward=8192, vocabulary=32000, sequence=2048
    )
    given = {"tensor": 2, "data": 4, "microbatch": 4, "zero": 3}
    best = enumerate_plans(problem(model, "a100-sxm", 8, 512, **given)).best
    assert best.plan.zero == 3
    assert best.plan.zero_copies < 4


@pytest.mark.parametrize(
    ("devices", "given"),
    [(1, {"zero": 3}), (4, {"tensor": 4, "zero": 2}), (4, {"data": 4, "zero_copies": 4}), (2, {"zero_copies": 2})],
)
def test_what_can_only_share_nothing_is_answered_as_asked(devices, given):
    posed = problem(MODELS["dense"], devices=devices, batch=16, sequence=512, **given)
    plans = all_plans(posed)
    assert plans.count > 0
    assert not any(shares(plans.plan(position)) for position in range(plans.count))


VALUES = {
    "precision": ("bf16", "fp8"),
    "weights": ("bf16", "fp32"),
    "gradients": ("bf16", "fp32"),
    "moments": ("bf16", "fp32"),
    "gradient_transfer": ("bf16", "fp32"),
    "weight_transfer": ("fp8", "fp32"),
    "overlap_tensor": ("yes", "no"),
    "overlap_context": ("yes", "no"),
    "overlap_expert": ("yes", "no"),
    "overlap_gradients": ("yes", "no"),
    "overlap_weights": ("yes", "no"),
    "overlap_pipeline": ("yes", "no"),
    "cross_entropy": ("fused", "unfused"),
    "offload": ("optimizer", "activations"),
}
"""Of each setting two values."""

MESHES = [
    {"data": 8},
    {"data": 8, "zero": 3},
    {"data": 8, "zero": 1, "zero_copies": 8},
    {"data": 8, "expert": 4, "zero": 1},
    {"tensor": 8, "sequence_parallel": True},
    {"context": 8},
    {"context": 4, "data": 2, "zero": 1},
    {"pipeline": 4, "data": 2},
    {"pipeline": 4, "interleave": 1, "data": 2, "zero": 1},
    {"pipeline": 2, "interleave": 2, "data": 4},
    {"pipeline": 2, "interleave": 2, "data": 2, "tensor": 2, "sequence_parallel": True, "zero": 2},
    {"tensor": 2, "sequence_parallel": True, "context": 2, "expert": 4, "data": 2, "zero": 3},
]


def of_setting(key, value, model, mesh):
    """Problem and plan of a mesh, with one setting."""
    posed = problem(model, devices=8, batch=16, sequence=512, **{key: value})
    return posed, plan(**mesh, **{key: value})


def prices(key, model, mesh):
    """Step and memory with each value of a setting, by the checker."""
    costs = [plan_costs(*of_setting(key, value, model, mesh)) for value in VALUES[key]]
    return [(each.step_s, each.memory_bytes) for each in costs]


def test_every_setting_has_values_here():
    assert {*VALUES} == {*SETTINGS}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALUES.items() for value in values])
def test_what_is_open_does_not_undo_a_setting(key, value, name):
    posed = problem(MODELS[name], devices=8, batch=16, sequence=512, **{key: value})
    found = enumerate_plans(posed)
    for each in (found.best, found.least, *found.front):
        assert illegal(posed, each.plan) == []
        assert {name: getattr(each.plan, name) for name in SETTINGS} == plan_settings(key, value)


def plan_settings(key, value):
    """All settings, one of which is given."""
    return dict.fromkeys(SETTINGS, "stack") | {"precision": "bf16"} | {key: value}


@pytest.mark.parametrize("key", VALUES)
def test_a_setting_that_is_said_to_be_idle_changes_neither_time_nor_memory(key):
    noted = different = 0
    for mesh in MESHES:
        model = MODELS["experts" if mesh.get("expert", 1) > 1 else "dense"]
        one, other = prices(key, model, mesh)
        said = [key in idle_settings(*of_setting(key, value, model, mesh)) for value in VALUES[key]]
        assert said[0] == said[1]
        assert not said[0] or one == other, mesh
        noted, different = noted + said[0], different + (one != other)
    assert different > 0
    assert (noted > 0) == (key in IDLE)


IDLE = {
    "order": ("tensor-context-pipeline-data", "data=8"),
    "overlap_tensor": ("yes", "data=8"),
    "overlap_context": ("no", "data=8"),
    "overlap_expert": ("yes", "data=8"),
    "overlap_pipeline": ("yes", "data=8"),
    "overlap_gradients": ("no", "tensor=8"),
    "overlap_weights": ("no", "data=8,zero=0"),
    "gradient_transfer": ("bf16", "tensor=8"),
    "weight_transfer": ("fp8", "data=8,zero=0"),
}


@pytest.mark.parametrize("key", IDLE)
def test_a_setting_that_makes_no_difference_is_noted(dse, key):
    value, mesh = IDLE[key]
    asked = ("predict", "megatron-1.7b", "--on", "h200-sxm", "--accelerators", 8, "--global-batch", 8)
    answered = dse(*asked, "--plan", f"{mesh},recompute=full,microbatch=1,{key}={value}")
    assert answered.code == 0, answered.err
    assert f"{key}={value} has no effect because" in " ".join(answered.out.split())
    assert answered.out.count("has no effect") == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("data=8,zero=3,zero_copies=8", "each of the 8 copies is a single replica"),
        ("tensor=8,zero=1", "there is only one replica"),
        ("data=4,tensor=2,zero=2", None),
        ("data=8,zero=3,zero_copies=4", None),
        ("data=8,zero=0", None),
    ],
)
def test_sharing_among_single_replicas_is_noted(dse, given, reason):
    """ZeRO shares state among the replicas of a copy: nothing, where each copy is one replica."""
    asked = ("predict", "megatron-1.7b", "--on", "h200-sxm", "--accelerators", 8, "--global-batch", 8)
    answered = dse(*asked, "--plan", f"{given},recompute=full,microbatch=1")
    assert answered.code == 0, answered.err
    said = " ".join(answered.out.split())
    assert (f"has no effect because {reason}" in said) if reason else "has no effect" not in said


def test_an_order_of_one_axis_is_noted_with_its_reason(dse):
    asked = ("predict", "megatron-1.7b", "--on", "h200-sxm", "--accelerators", 8, "--global-batch", 8)
    answered = dse(*asked, "--plan", f"data=8,recompute=full,microbatch=1,order={PIPELINE_INSIDE}")
    assert "because fewer than two axes have more than one rank" in " ".join(answered.out.split())


def test_settings_that_make_a_difference_are_not_noted(dse):
    settings = "overlap_gradients=no,overlap_weights=no,gradient_transfer=bf16,weight_transfer=fp8"
    asked = ("predict", "megatron-1.7b", "--on", "h200-sxm", "--accelerators", 8, "--global-batch", 8)
    answered = dse(*asked, "--plan", f"data=8,zero=1,recompute=full,microbatch=1,{settings}")
    assert answered.code == 0, answered.err
    assert "makes no difference" not in answered.out

"""Schedules that run gradients of weights apart: bubbles by their published forms, and memory of paired stages."""

from dataclasses import replace

import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.check_layer import layer_of
from dse.plan.check_layers import RankCosts
from dse.plan.evaluate import evaluate
from dse.plan.export.expressible import NotExpressibleError
from dse.plan.export.megatron import megatron_arguments
from dse.plan.export.torchtitan import torchtitan_toml
from dse.plan.plan_arrays import PlanArrays
from dse.plan.rules import faults
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.timeline import pipeline_spans
from tests.plan.problems import plan, problem

DEVICES, DEPTH = 64, 8
POSED = problem("deepseek-v3", "gb200", DEVICES, 256, 4096, "fp8")
PLAIN = plan(pipeline=DEPTH, data=DEVICES // DEPTH, expert=8, zero=1, precision="fp8")
APART = ("zb1p", "dualpipe")


@pytest.mark.parametrize("recompute", ["none", "layernorm+mla_up_proj", "full/4"])
@pytest.mark.parametrize("ends", [(0, 0), (5, 0), (5, 8)])
@pytest.mark.parametrize("schedule", APART)
def test_arrays_cost_what_the_checker_finds(schedule, ends, recompute):
    each = replace(PLAIN, schedule=schedule, first_layers=ends[0], last_layers=ends[1], recompute=recompute)
    for zero in (0, 1, 2, 3):
        own = replace(each, zero=zero)
        assert illegal(POSED, own) == []
        expected, costs = plan_costs(POSED, own), evaluate(POSED, PlanArrays.of([PLAIN, own]))
        assert costs.step_s[1] == pytest.approx(expected.step_s, rel=1e-11)
        assert {name: part[1] for name, part in costs.time_s.items()} == pytest.approx(expected.time_s, rel=1e-9)
        assert {name: part[1] for name, part in costs.memory.items()} == pytest.approx(expected.memory, rel=1e-9)
        assert costs.step_s[0] == pytest.approx(plan_costs(POSED, PLAIN).step_s, rel=1e-11)


def of_equal_stages(schedule):
    """Costs of a model whose stages are equal but for the ends, and of one of its layers."""
    model = POSED.model.model_copy(
        update={"prediction_layers": 0, "layers": 16, "experts": None, "vocabulary": 8, "latent": None}
    )
    posed = problem(model, "gb200", DEVICES, 256, 4096, "fp8")
    each = replace(PLAIN, schedule=schedule, expert=1, zero=0)
    return plan_costs(posed, each), layer_of(RankCosts(posed, each), posed.model.kinds[0])


def test_bubbles_have_their_published_forms():
    plain, layer = of_equal_stages("1f1b")
    forward, backward, weights = layer.forward.total, layer.backward.total, layer.weight_gradients
    assert 0 < weights < backward
    # (PP - 1)(F + B), (PP - 1)(F + B - 2W) and (PP / 2 - 1)(F&B + B - 3W) of DeepSeek-V3's table 2, two layers a stage.
    forms = {
        "1f1b": (DEPTH - 1) * (forward + backward),
        "zb1p": (DEPTH - 1) * (forward + backward - 2 * weights),
        "dualpipe": (DEPTH / 2 - 1) * (forward + 2 * backward - 3 * weights),
    }
    for schedule, seconds in forms.items():
        costs, _ = of_equal_stages(schedule)
        transfers = 2 * (DEPTH - 1) * costs.transfer_s
        assert costs.time_s["bubble"] - transfers == pytest.approx(2 * seconds, rel=0.01)
    assert plain.time_s["linear"] == of_equal_stages("zb1p")[0].time_s["linear"]


def test_a_device_of_dualpipe_has_two_stages_and_one_microbatch_more():
    plain, paired = of_equal_stages("1f1b")[0], of_equal_stages("dualpipe")[0]
    first, last = plain.stage_memory[0], plain.stage_memory[-1]
    for part in ("weights", "gradients", "optimizer"):
        assert paired.memory[part] == pytest.approx(first[part] + last[part])
    of_one = first["activations"] / DEPTH
    assert paired.memory["activations"] == pytest.approx((DEPTH + 1) * of_one)


def test_a_busy_end_is_shared_with_a_stage_of_the_other_end():
    one, both = (plan_costs(POSED, replace(PLAIN, schedule=schedule)) for schedule in ("1f1b", "dualpipe"))
    assert both.step_s < one.step_s
    busiest = max(forward + backward for forward, backward in one.passes_s)
    rounds = 256 // PLAIN.data
    assert both.time_s["linear"] < rounds * busiest


@pytest.mark.parametrize("schedule", APART)
def test_an_enumeration_finds_the_best_of_such_plans(schedule):
    posed = problem("llama3-8b", devices=16, batch=64, schedule=schedule, zero=1, tensor=1)
    found = enumerate_plans(posed)
    assert found.best is not None
    assert found.best.plan.schedule == schedule
    assert found.best.step_s == pytest.approx(plan_costs(posed, found.best.plan).step_s)


def test_what_no_framework_or_picture_has_is_refused():
    posed, each = problem("llama3-8b", devices=8, batch=16), plan(pipeline=4, data=2, zero=3, schedule="dualpipe")
    for export in (megatron_arguments, torchtitan_toml):
        with pytest.raises(NotExpressibleError, match="schedule=dualpipe"):
            export(posed, each)
    assert pipeline_spans(posed, each) is None
    odd = problem("llama3-8b", devices=30, batch=60)
    assert illegal(odd, plan(pipeline=3, data=10, schedule="dualpipe")) == [
        "schedule=dualpipe requires an even pipeline"
    ]


@pytest.mark.parametrize(
    ("schedule", "batch", "said"),
    [
        ("zb1p", 3, "needs at least 4 microbatches per replica, but has 3"),
        ("dualpipe", 6, "needs at least 8 microbatches per replica, an even number, but has 6"),
        ("dualpipe", 9, "needs at least 8 microbatches per replica, an even number, but has 9"),
        ("zb1p", 4, ""),
        ("dualpipe", 8, ""),
    ],
)
def test_microbatches_that_do_not_fill_a_schedule_are_refused(schedule, batch, said):
    each = plan(pipeline=4, schedule=schedule)
    given = {key: getattr(each, key) for key in ("pipeline", "data", "microbatch", "schedule")}
    posed = problem("llama3-8b", devices=4, batch=batch, **given)
    assert bool(illegal(posed, each)) is bool(said)
    assert said in " ".join(str(fault) for fault in faults(posed))
    assert (enumerate_plans(posed).count == 0) is bool(said)

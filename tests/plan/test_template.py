"""Plans on accelerators of the template: arrays against the checker, and lower bounds against exact times."""

import random
from dataclasses import replace

import numpy as np
import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate, step_seconds
from dse.plan.model import Transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.rules import faults
from dse.plan.search.vocabulary import all_plans
from dse.plan.stack import template_stack
from dse.plan.template_kernels import RooflineKernels, TemplateKernels, distinct_rows
from hardware.chips import Chip, System
from hardware.derating import derating
from hardware.network_specs import network
from hardware.space import architecture_space
from tests.plan.problems import problem

SPACE = architecture_space()
SMALL = {"name": "small", "layers": 3, "hidden": 96, "heads": 6, "vocabulary": 1003, "sequence": 48}
MODELS = {
    "masked": Transformer(
        **SMALL, feed_forward=384, gated=False, head="masked_lm", normalisation="layer_norm", positions="learned",
        position_rows=48, token_types=2, embedding_norm=True, pooler=True, tied_embeddings=True, dropout=True,
    ),
    "gated, grouped": Transformer(**SMALL, feed_forward=258, kv_heads=2, query_key_norm=True),
    "experts": Transformer(**SMALL, experts={"routed": 4, "active": 2, "width": 96, "shared": 2}),
    "states": Transformer(
        **SMALL, feed_forward=96, layer_kinds=("recurrence", "attention+recurrence+dense", "dense"),
        recurrence={"kind": "mamba2", "heads": 6, "head_width": 8, "key_heads": 2, "state_width": 12, "chunk": 20},
    ),
    "chosen tokens": Transformer(
        **SMALL, feed_forward=96, head_width=24, value_width=16, indexer={"heads": 2, "head_width": 12, "chosen": 6},
        latent={"query_rank": 24, "key_value_rank": 16, "rotary_width": 8},
    ),
    "later token": Transformer(**SMALL, experts={"routed": 4, "active": 2, "width": 96}, prediction_layers=1),
}  # fmt: skip


FORMATS = {"bf16": 1.0, "fp8": 2.0, "int8": 1.0, "mxfp8": 1.25, "fp4": 4.0}
"""Rates of products by format, over those of words of 16 bits."""


def on_template(model, index, devices=12, batch=24, ideal=False, fused=False, precision="bf16"):
    machine = SPACE.one(index)
    rates = {each: times * float(machine.peak_flops[0]) for each, times in FORMATS.items()}
    chip = Chip("template", "", rates, 2**33, machine.hbm_bytes_per_s, "tpuv4")
    posed = problem(
        model,
        devices=devices,
        batch=batch,
        sequence=model.sequence,
        software=template_stack(network("tpuv4"), ideal, fused),
        precision=precision,
    )
    return replace(posed, system=System(chip, posed.system.network), machine=machine)


@pytest.mark.parametrize(
    ("model", "fused", "precision"),
    [
        *((model, fused, "bf16") for model in MODELS for fused in (False, True)),
        ("gated, grouped", True, "fp8"),
        ("gated, grouped", False, "mxfp8"),
        ("experts", False, "fp4"),
        ("later token", False, "int8"),
    ],
)
def test_arrays_cost_what_the_checker_finds_for_each_plan(model, fused, precision):
    chosen = random.Random(5)
    for index in chosen.sample(range(len(SPACE)), 3):
        posed = on_template(MODELS[model], index, fused=fused, precision=precision)
        every = all_plans(posed)
        plans = every.part(chosen.sample(range(every.count), 12))
        costs = evaluate(posed, plans)
        for position in range(plans.count):
            each = plans.plan(position)
            assert illegal(posed, each) == []
            expected = plan_costs(posed, each)
            assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11), each.text()
            assert {name: part[position] for name, part in costs.time_s.items()} == pytest.approx(
                expected.time_s, rel=1e-9
            )


@pytest.mark.parametrize(
    ("model", "fused", "precision"),
    [
        *((model, fused, "bf16") for model in MODELS for fused in (False, True)),
        *(("experts", False, each) for each in FORMATS if each != "bf16"),
    ],
)
def test_machines_together_cost_what_each_costs_and_never_less_than_the_bound(model, fused, precision):
    chosen, model = np.array(sorted(random.Random(3).sample(range(len(SPACE)), 60))), MODELS[model]
    machines = SPACE.take(chosen)
    posed = on_template(model, 0, fused=fused, precision=precision)
    every = all_plans(posed)
    plans = every.part(np.arange(0, every.count, 37))
    exact = step_seconds(posed, plans, TemplateKernels(posed, machines))
    for column in (0, 30, 59):
        alone = evaluate(on_template(model, int(chosen[column]), fused=fused, precision=precision), plans).step_s
        assert exact[:, column] == pytest.approx(alone, rel=1e-13)
    elements = machines.tensor_cores * machines.core_width * machines.core_depth
    lanes = machines.vector_cores * machines.vector_lanes
    bound = step_seconds(posed, plans, RooflineKernels(posed, machines, elements, lanes))
    assert np.all(bound <= exact)
    assert np.any(bound >= 0.999 * exact)
    assert np.any(bound < 0.9 * exact)
    largest = RooflineKernels(posed, machines, elements.max(keepdims=True), lanes.max(keepdims=True))
    assert np.all(step_seconds(posed, plans, largest) <= bound * (1 + 1e-12))


def test_scores_take_the_time_of_the_global_buffer_that_their_bound_has_where_memory_is_fast():
    posed = on_template(MODELS["gated, grouped"].model_copy(update={"sequence": 4096}), 40_000, ideal=True)
    machine = replace(posed.machine, hbm_bytes_per_s=1e15, global_buffer_words_per_cycle=8.0)
    plans = all_plans(posed).part(np.arange(0, 200))
    elements = machine.tensor_cores * machine.core_width * machine.core_depth
    kernels = RooflineKernels(posed, machine, elements, machine.vector_cores * machine.vector_lanes)
    bound, exact = step_seconds(posed, plans, kernels), step_seconds(posed, plans, TemplateKernels(posed, machine))
    assert np.all(bound <= exact)
    assert np.all(bound >= 0.5 * exact)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_no_derated_step_is_shorter_than_the_ideal_one_nor_longer_than_the_largest_factor_makes_it(model):
    derated, ideal = (on_template(model, 4_000, ideal=each) for each in (False, True))
    every = all_plans(derated)
    plans = every.part(np.arange(0, every.count, 37))
    long, short = (evaluate(each, plans).step_s for each in (derated, ideal))
    assert np.all(long > short)
    largest = max(known.factor for known in derating().classes.values())
    assert np.all(long <= short * largest * (1 + 1e-9))


def test_narrow_operands_take_no_longer_than_words_but_for_their_casts():
    model = MODELS["experts"].model_copy(update={"hidden": 1536, "sequence": 2048})
    posed = {each: on_template(model, 30_000, ideal=True, precision=each) for each in FORMATS}
    rows = np.arange(0, 400)
    linear = {each: evaluate(of, all_plans(of).part(rows)).time_s["linear"] for each, of in posed.items()}
    for narrow in ("fp8", "int8", "mxfp8", "fp4"):
        assert np.all(linear[narrow] <= linear["bf16"] * (1 + 1e-12))
    assert np.all(linear["fp4"] <= linear["fp8"] * (1 + 1e-12))
    assert np.any(linear["fp8"] < 0.7 * linear["int8"])


def test_fused_attention_keeps_no_scores_and_moves_less_where_memory_binds():
    model = MODELS["gated, grouped"].model_copy(update={"sequence": 4096})
    fused, unfused = (on_template(model, 4_000, ideal=True, fused=each) for each in (True, False))
    slow = [replace(each, machine=replace(each.machine, hbm_bytes_per_s=1e10)) for each in (fused, unfused)]
    plans = all_plans(fused).part(np.arange(0, 200))
    costs = [evaluate(each, plans) for each in slow]
    assert np.all(costs[0].time_s["attention"] < costs[1].time_s["attention"])
    kept = plans.recompute == 0
    assert np.all(costs[0].memory["activations"][kept] < costs[1].memory["activations"][kept])


def test_links_whose_spec_has_latencies_are_not_derated():
    assert template_stack(network("tpuv4")).link.value == 1 / derating().classes["collective"].factor
    assert template_stack(network("dgx-a100")).link.value == 1
    assert template_stack(network("tpuv4"), ideal=True).link.value == 1


def test_interleaved_plans_whose_gradients_travel_slowly_keep_the_bound():
    """There a step can get shorter as a kernel of one stage gets longer: more of its gradients are hidden."""
    sizes = {"layers": 7, "hidden": 64, "heads": 4, "vocabulary": 500_000, "sequence": 64, "position_rows": 64}
    model = Transformer(
        name="ends", **sizes, feed_forward=256, gated=False, head="masked_lm", normalisation="layer_norm",
        positions="learned", tied_embeddings=True, embedding_norm=True,
    )  # fmt: skip
    posed = on_template(model, 0, devices=8, batch=8)
    posed = replace(posed, system=System(posed.system.chip, network("ethernet-25g")))
    every = all_plans(posed)
    plans = every.part(np.flatnonzero(every.interleave > 1))
    machines = SPACE.take(np.arange(0, len(SPACE), 3_001))
    exact = step_seconds(posed, plans, TemplateKernels(posed, machines))
    elements = machines.tensor_cores * machines.core_width * machines.core_depth
    kernels = RooflineKernels(posed, machines, elements, machines.vector_cores * machines.vector_lanes)
    assert np.all(step_seconds(posed, plans, kernels) <= exact)
    kernels.are_bounds = False
    assert np.any(step_seconds(posed, plans, kernels) > (1 + 1e-7) * exact)


def test_distinct_rows_are_those_of_the_table():
    numbers = np.random.default_rng(1).integers(0, 3, size=(200, 4)).astype(float)
    rows, position = distinct_rows(list(numbers.T))
    assert np.array_equal(rows[position], numbers)
    assert len(rows) == len(np.unique(numbers, axis=0))


def test_a_plan_of_arrays_is_repeated_for_each_machine():
    plans = PlanArrays.of([all_plans(on_template(MODELS["experts"], 0)).plan(place) for place in (0, 5)])
    assert [plans.repeated(3).plan(row) for row in range(6)] == [plans.plan(row) for row in (0, 0, 0, 1, 1, 1)]


def test_what_is_no_linear_layer_has_16_bits_of_the_kind_that_the_chip_has():
    either = on_template(MODELS["experts"], 4_000, precision="fp4")
    rates = {each: rate for each, rate in either.system.chip.peak_flops.items() if each not in ("bf16", "fp16")}
    half = either.system.chip.peak_flops["bf16"]
    only = [
        replace(
            either, system=replace(either.system, chip=replace(either.system.chip, peak_flops=rates | {each: half}))
        )
        for each in ("bf16", "fp16")
    ]
    plans = all_plans(either).part(np.arange(0, 200, 7))
    steps = [evaluate(posed, plans).step_s for posed in (either, *only)]
    assert np.array_equal(steps[0], steps[1])
    assert np.array_equal(steps[0], steps[2])
    for posed in only:
        assert not illegal(posed, plans.plan(3))
        assert plan_costs(posed, plans.plan(3)).step_s == pytest.approx(steps[0][3], rel=1e-9)
        assert not list(faults(posed))

"""Costs of plans: the arrays against the checker's plain numbers, and both against the literature."""

import random
from dataclasses import replace

import numpy as np
import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import PlanArrays
from dse.plan.search.enumeration import _chunks
from hardware.network import Network
from hardware.network_arrays import collective_seconds, transfer_seconds
from hardware.network_specs import network
from hardware.units import GIB
from tests.plan.problems import GENERIC, plan, problem, with_facts

OLD = with_facts(attention="unfused", overlaps_tensor=True, overlaps_data=False, overlaps_pipeline=False)
CASES = {
    "dense": ("llama3-8b", "h100-sxm", 64, 64, "fp8"),
    "latent and shared experts": ("deepseek-v3", "gb200", 256, 256, "mxfp8"),
    "experts": ("mixtral-8x7b", "a100-sxm", 32, 64, "bf16"),
    "windows": ("gpt-oss-120b", "h100-sxm", 64, 128, "bf16"),
    "tied, dropout": ("megatron-22b", "a100-sxm", 16, 16, "fp16"),
}


@pytest.mark.parametrize("software", [GENERIC, OLD], ids=["overlapping", "not"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_arrays_cost_what_the_checker_finds_for_each_plan(case, software):
    model, on, devices, batch, precision = case
    posed = problem(model, on, devices, batch, 4096, precision, software)
    rows = np.concatenate(list(_chunks(posed)))
    chosen = random.Random(7).sample(range(len(rows)), 40)
    plans = PlanArrays.of_rows(rows[chosen], precision)
    costs = evaluate(posed, plans)
    for position in range(plans.count):
        each = plans.plan(position)
        assert illegal(posed, each) == []
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11), each.text()
        assert costs.memory_bytes[position] == pytest.approx(expected.memory_bytes, rel=1e-11)
        assert {name: part[position] for name, part in costs.time_s.items()} == pytest.approx(expected.time_s, rel=1e-9)
        assert {name: part[position] for name, part in costs.memory.items()} == pytest.approx(expected.memory, rel=1e-9)
        assert sum(part[position] for part in costs.time_s.values()) == pytest.approx(expected.step_s)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "gb200-nvl72", "dapple-ethernet", "nvlink3"])
def test_collectives_of_arrays_are_those_of_the_network(name, kind):
    joined: Network = network(name)
    sizes = np.array([0.0, 1.0, 1e3, 1e6, 1e9])
    for participants, stride in ((1, 1), (2, 1), (8, 1), (16, 1), (4, 8), (8, 2), (5, 3), (64, 4)):
        expected = [joined.collective_s(kind, size, participants, stride, stride) for size in sizes]
        assert collective_seconds(joined, kind, sizes, participants, stride) == pytest.approx(expected, rel=1e-12)
    assert transfer_seconds(joined, sizes) == pytest.approx([joined.transfer_s(size) for size in sizes], rel=1e-12)


# Korthikanti et al. 2022, table 2: bytes that a layer keeps, in units of sequence · microbatch · hidden.
KEPT = {
    (8, False, "none"): 10 + 24 / 8,
    (8, True, "none"): 34 / 8,
    (8, True, "full"): 2 / 8,
    (8, False, "full"): 2,
}


@pytest.mark.parametrize("key", KEPT)
def test_a_layer_keeps_what_korthikanti_counts(key):
    tensor, cut, recompute = key
    posed = problem("megatron-22b", "a100-sxm", 8, 4, 2048, "fp16", with_facts(attention="unfused"))
    mesh = plan(tensor=tensor, sequence_parallel=cut, microbatch=4, recompute=recompute, precision="fp16")
    model = posed.model
    scores = 5 * model.heads * 2048 / model.hidden / tensor if recompute == "none" else 0.0
    activations = plan_costs(posed, mesh).memory["activations"]
    assert activations == pytest.approx((KEPT[key] + scores) * 2048 * 4 * model.hidden * model.layers)


@pytest.mark.parametrize(
    ("model", "values", "devices", "gib"),
    [
        ("megatron-22b", {"tensor": 8, "microbatch": 4}, 8, 9.5625),
        ("megatron-529.6b", {"tensor": 8, "pipeline": 35, "interleave": 3}, 280, 23.076171875),
    ],
)
def test_activations_are_those_of_the_published_figure(model, values, devices, gib):
    """Korthikanti et al. 2022, figure 1: sequence parallelism with selective recomputation."""
    software = with_facts(attention="unfused")
    posed = problem(model, "a100-sxm", devices, 280, 2048, "fp16", software)
    mesh = plan(**values, sequence_parallel=True, recompute="selective", precision="fp16")
    assert illegal(posed, mesh) == []
    assert plan_costs(posed, mesh).memory["activations"] / GIB == pytest.approx(gib, rel=1e-9)


@pytest.mark.parametrize(("zero", "bytes_each"), [(0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_state_is_shared_out_as_zero_does(zero, bytes_each):
    """Rajbhandari et al. 2020, figure 1, with 2 bytes a gradient."""
    posed = problem("llama3-8b", devices=64, batch=64, software=with_facts(gradient_bytes=2))
    memory = plan_costs(posed, plan(data=64, zero=zero)).memory
    state = memory["weights"] + memory["gradients"] + memory["optimizer"]
    assert state == pytest.approx(bytes_each * posed.model.parameters, rel=1e-9)


@pytest.mark.parametrize(("depth", "chunks", "rounds"), [(4, 1, 8), (4, 2, 8), (8, 4, 16)])
def test_the_bubble_of_equal_stages_is_narayanans(depth, chunks, rounds):
    """Narayanan et al., SC 2021, section 2.2: (p − 1) / (v M) of the ideal time, where the ends weigh nothing."""
    posed = problem("llama3-8b", devices=depth, batch=rounds)
    light = replace(posed, model=posed.model.model_copy(update={"vocabulary": 1}))
    costs = plan_costs(light, plan(pipeline=depth, interleave=chunks))
    filling = 2 * (depth - 1) * light.system.network.spanning(depth).transfer_s(2 * 2048 * 4096 / 0.8)
    ideal = sum(costs.time_s.values()) - costs.time_s["bubble"] - costs.time_s["data"] - costs.time_s["optimizer"]
    bubble = costs.time_s["bubble"] - (filling if chunks > 1 else 0.0)
    assert bubble / ideal == pytest.approx((depth - 1) / (chunks * rounds), rel=5e-3)


def test_recomputation_adds_a_forward_pass_and_frees_memory():
    posed = problem("llama3-8b", batch=8)
    none, full = (plan_costs(posed, plan(data=8, recompute=mode)) for mode in ("none", "full"))
    compute = none.time_s["linear"] + none.time_s["attention"]
    assert 0.25 * compute < full.time_s["recompute"] < 0.4 * compute
    assert full.memory["activations"] < 0.1 * none.memory["activations"]


FASTER = {
    "hbm_bytes_per_s": lambda system: replace(
        system, chip=replace(system.chip, hbm_bytes_per_s=2 * system.chip.hbm_bytes_per_s)
    ),
    "peak_flops": lambda system: replace(
        system, chip=replace(system.chip, peak_flops={key: 2 * rate for key, rate in system.chip.peak_flops.items()})
    ),
    "network": lambda system: replace(
        system, network=replace(system.network, bytes_per_s=2 * system.network.bytes_per_s)
    ),
}


@pytest.mark.parametrize("change", FASTER.values(), ids=FASTER)
def test_a_faster_machine_is_faster_for_every_plan(change):
    posed = problem("mixtral-8x7b", devices=32, batch=64)
    rows = next(iter(_chunks(posed)))[::97]
    plans = PlanArrays.of_rows(rows, "bf16")
    before = evaluate(posed, plans).step_s
    after = evaluate(replace(posed, system=change(posed.system)), plans).step_s
    assert np.all(after <= before * (1 + 1e-12))
    assert np.any(after < before * 0.999)

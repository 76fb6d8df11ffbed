"""Shares of kernels that were timed on an accelerator stand for those that a stack assumes."""

import dataclasses

import numpy as np
import pytest
import yaml

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate, kernels_of
from dse.plan.plan_arrays import PlanArrays
from dse.plan.stack import stack
from hardware.chips import chip
from tests.plan.problems import plan, problem, with_facts

B200 = chip("b200")


@pytest.mark.parametrize(
    ("name", "replaced"), [("generic", {"matrix", "attention_rate"}), ("megatron-2025", {"attention_rate"})]
)
def test_only_assumed_shares_are_replaced(name, replaced):
    own = stack(name)
    there = own.on_chip(B200, 128, 4096, "bf16")
    assert {key for key, rate in there.rates.items() if rate.timed_on == "b200"} == replaced
    assert all(there.rates[key] == rate for key, rate in own.rates.items() if key not in replaced)
    assert there.attention_rate.value == pytest.approx(0.376)
    assert not any(rate.timed_on for rate in own.on_chip(chip("a100-sxm"), 128, 4096, "bf16").rates.values())


@pytest.mark.parametrize(
    ("name", "where"), [("megatron-2025", "b200"), ("nemo-24.07", "h100-sxm"), ("generic", "mi300x")]
)
def test_the_length_that_counts_is_that_of_the_keys_that_are_attended_to_at_a_time(name, where):
    own = with_facts(stack(name).on_chip(chip(where), 128, 8192, "bf16"), ring_bytes=(0.0, 0.0, 0.0, 0.0))
    posed = problem("llama3-8b", where, devices=4, batch=4, sequence=8192, software=own)
    alone, ring = plan(data=4), plan(context=4)
    before, after = (plan_costs(posed, each) for each in (alone, ring))
    shares = chip(where).sustained.attention(own.attention.kernel)
    faster = 1.0 if shares is None else shares.value(128, 8192) / shares.value(128, 2048)
    assert after.time_s["attention"] == pytest.approx(before.time_s["attention"] * faster)
    arrays = evaluate(posed, PlanArrays.of([alone, ring]))
    assert arrays.step_s == pytest.approx([before.step_s, after.step_s], rel=1e-12)


def test_stacks_have_the_shares_of_the_kernel_that_they_name():
    h100 = chip("h100-sxm")
    of_kernels = {
        name: stack(name).on_chip(h100, 128, 16384, "fp8").attention_rate.value
        for name in ("nemo-24.07", "torchtitan-2024", "megatron-bridge", "mlperf-5", "generic")
    }
    assert of_kernels == {
        "nemo-24.07": 0.329, "torchtitan-2024": 0.329, "megatron-bridge": 0.528, "mlperf-5": 0.528, "generic": 0.55
    }  # fmt: skip
    there = stack("torchtitan-2024").on_chip(B200, 128, 16384, "fp8").attention_rate
    assert (there.value, there.timed_on) == (0.35, "h100-sxm"), "the timed kernel of a B200 is another one"


def test_fitted_products_are_in_proportion_to_timed_ones():
    def share(name, where, precision):
        return stack(name).on_chip(chip(where), 128, 4096, precision).matrix.value

    own = stack("megatron-bridge").matrix.value
    assert share("megatron-bridge", "h100-sxm", "fp8") == share("megatron-bridge", "a100-sxm", "fp8") == own
    for where in ("b200", "gb200"):
        assert share("megatron-bridge", where, "fp8") == pytest.approx(0.835 * own)
        assert share("megatron-bridge", where, "bf16") == pytest.approx(0.857 * own)
    assert share("megatron-2025", "b200", "bf16") == pytest.approx(stack("megatron-2025").matrix.value)
    assert share("megatron-2025", "h100-sxm", "bf16") == pytest.approx(stack("megatron-2025").matrix.value / 0.857)
    h100, b200 = (share("mlperf-5", each, "fp8") for each in ("h100-sxm", "b200"))
    assert (h100 * b200) ** 0.5 == pytest.approx(stack("mlperf-5").matrix.value)
    assert b200 == pytest.approx(0.835 * h100)
    assert share("generic", "gb300", "fp8") == stack("generic").matrix.value, "an assumed share has no chip"


def test_attention_takes_as_long_as_the_timed_share_says_and_the_checker_agrees():
    posed = problem("llama3-8b", "b200", 1, 1, 4096, software=stack("megatron-2025"))
    timed = dataclasses.replace(posed, stack=posed.stack.on_chip(B200, 128, 4096, "bf16"))
    one = plan()
    before, after = (evaluate(each, PlanArrays.of([one])) for each in (posed, timed))
    ratio = after.time_s["attention"][0] / before.time_s["attention"][0]
    assert ratio == pytest.approx(posed.stack.attention_rate.value / 0.376)
    assert after.time_s["linear"] == before.time_s["linear"]
    assert plan_costs(timed, one).step_s == pytest.approx(after.step_s[0], rel=1e-9)


EXPERTS_OF_B200 = [
    (154, 3072, 5120, 0.1997, 0.1947, 0.0937), (154, 5120, 1536, 0.1158, 0.1228, 0.0828),
    (128, 4096, 7168, 0.2081, 0.2264, 0.0775), (128, 7168, 2048, 0.1782, 0.1513, 0.0801),
    (308, 3072, 5120, 0.3868, 0.3044, 0.1616), (308, 5120, 1536, 0.2350, 0.2495, 0.1780),
    (256, 4096, 7168, 0.2714, 0.3325, 0.1473), (256, 7168, 2048, 0.3035, 0.2329, 0.1409),
    (616, 3072, 5120, 0.4618, 0.3213, 0.2579), (616, 5120, 1536, 0.3258, 0.2807, 0.2723),
    (512, 4096, 7168, 0.3670, 0.4046, 0.2192), (512, 7168, 2048, 0.4274, 0.2942, 0.2145),
    (1232, 3072, 5120, 0.5134, 0.4215, 0.3276), (1232, 5120, 1536, 0.3974, 0.3891, 0.3198),
    (1024, 4096, 7168, 0.4571, 0.4355, 0.2888), (1024, 7168, 2048, 0.3842, 0.4301, 0.2744),
]  # fmt: skip
"""Tokens, width and depth of products of experts in 16 bits, and shares of the peak that they reached on a B200:
forward, gradient of the input, gradient of the weights (added up in 32 bits). MooreThreads/SimuMax at e691807,
configs/system/b200_bf16_ceperm.json, group_matmul."""

MEMORY_OF_B200 = 0.88
"""``memory_share`` of products in 16 bits (hardware/specs/kernel_times/b200.yaml)."""


def test_products_of_experts_take_what_was_timed_on_a_b200_without_any_fit():
    dense = B200.sustained.matrix.value
    software = with_facts(stack("megatron-2025"), matrix=dense, memory=MEMORY_OF_B200)
    kernels = kernels_of(problem("llama3-8b", "b200", software=software), "bf16")
    alone, together = [], []
    for tokens, width, depth, *shares in EXPERTS_OF_B200:
        timed_s = 2 * tokens * width * depth / (B200.peak_flops["bf16"] * np.array(shares))
        sides = np.array([float(tokens)]), float(width), float(depth)
        for errors, grouped in ((alone, True), (together, False)):
            errors.append(np.ravel(kernels.product_s(*sides, False, grouped=grouped)) / timed_s - 1)
    assert np.abs(alone).mean() < 0.15
    assert np.abs(np.mean(alone, axis=0)).max() < 0.15  # of each pass
    assert np.abs(together).mean() > 0.3  # as products that hide their traffic


ASKED = ("llama3-8b", "--global-batch", 8, "--plan", "recompute=none,microbatch=1", "--on")
INCOMPARABLE = "times based on timed kernels and on assumed shares are not comparable across accelerators"


def told(dse, *asked):
    """The answer in one line."""
    answered = dse("predict", *ASKED, *asked, "--notes")
    assert answered.code == 0, answered.err
    return " ".join(answered.out.split())


@pytest.mark.parametrize(
    ("asked", "timed", "assumed"),
    [
        (["b200", "--stack", "generic"], "attention_rate on b200, matrix on b200", "link, memory"),
        (["b200", "--stack", "generic", "--precision", "fp8"], "attention_rate on b200", "link, matrix, memory"),
        (["b200", "--stack", "generic", "--precision", "fp16"], "", "attention_rate, link, matrix, memory"),
        (["b200", "--stack", "megatron-2025"], "attention_rate on b200", "link"),
        (["a100-sxm", "--stack", "torchtitan-2024"], "attention_rate on h100-sxm", "link"),
        (["h200-sxm", "--stack", "torchtitan-2024"], "attention_rate on h100-sxm", "link"),
        (["h100-sxm", "--stack", "nemo-24.07"], "attention_rate on h100-sxm", "link"),
        (["h100-sxm"], "attention_rate on h100-sxm", "link"),
        (["h100-sxm", "--stack", "generic"], "", "attention_rate, link, matrix, memory"),
        (["mi355x"], "", "attention_rate, link, memory"),
    ],
)
def test_an_answer_says_which_shares_were_timed_and_which_are_assumed(dse, asked, timed, assumed):
    answer = told(dse, *asked)
    assert ("from individually timed kernels" in answer) is bool(timed)
    assert timed in answer
    assert f"assumed sustained shares: {assumed} {INCOMPARABLE}" in answer


def test_an_answer_says_which_collectives_were_timed_and_that_no_share_of_links_is_assumed_for_them(tmp_path, dse):
    timed = "collectives over nvlink5 with measured times, on 8 b200 (extrapolated to more ranks)"
    kinds = ": all_gather, all_reduce, all_to_all, reduce_scatter"
    assert timed not in told(dse, "b200", "--accelerators", 1)
    assert timed not in told(dse, "h100-sxm", "--accelerators", 8)
    for eight in (["b200"], ["gb300"]):
        assert f"{timed}, to which the share link does not apply{kinds}" in told(dse, *eight, "--accelerators", 8)
    own = written(tmp_path, lambda stated: stated["link"].pop("assumed"))
    assert f"{timed}{kinds}" in told(dse, "b200", "--accelerators", 8, "--stack", own)


def test_shares_that_were_timed_on_another_accelerator_are_named(dse):
    assert "not calibrated for gb300" in told(dse, "gb300")
    assert "not calibrated" not in told(dse, "b200", "--stack", "megatron-2025")
    assert (
        "attention_rate on h100-sxm"
        in told(dse, "a100-sxm", "--stack", "torchtitan-2024").partition("measured on other chips: ")[2]
    )


def written(tmp_path, change):
    """A copy of the stack ``generic`` as a user has it."""
    document = stack("generic").model_dump(mode="json", exclude_unset=True)
    change(document)
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_a_share_that_a_stack_states_itself_is_no_assumption(tmp_path, dse):
    answer = told(dse, "b200", "--stack", written(tmp_path, lambda stated: stated["matrix"].pop("assumed")))
    assert "stated by the stack without measurement: matrix" in answer
    assert "individually timed kernels: attention_rate on b200" in answer


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"timed_on": "b200"}, "must have at most one of fitted, assumed and timed_on"),
        ({"fitted": ["a run"]}, "must have at most one of fitted, assumed and timed_on"),
        ({"fitted_on": ["b200"]}, "fitted_on requires fitted, the runs"),
        ({"kernels_of": "b200"}, "kernels_of"),
        ({"value": float("nan")}, "matrix.value: nan: numbers must be finite"),
    ],
)
def test_a_fault_in_a_rate_names_the_rate(tmp_path, dse, more, rule):
    answered = dse(
        "predict", *ASKED, "b200", "--stack", written(tmp_path, lambda stated: stated["matrix"].update(more))
    )
    assert answered.code == 2
    assert "ours.yaml: matrix" in answered.err
    assert rule in answered.err
    assert len(answered.err.splitlines()) == 1


def test_accelerators_of_one_generation_are_as_fast_as_their_peaks_say():
    steps = []
    for name in ("b200", "gb200", "gb300"):
        posed = problem("llama3-8b", name, 1, 1, 4096)
        own = posed.stack.on_chip(posed.system.chip, 128, 4096, "bf16")
        timed = dataclasses.replace(posed, stack=own)
        linear = evaluate(timed, PlanArrays.of([plan()])).time_s["linear"][0]
        steps.append(linear * posed.system.chip.peak_flops["bf16"])
    assert steps == pytest.approx([steps[0]] * 3, rel=0.01)

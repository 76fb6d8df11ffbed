"""What stacks state of their software, by what predictions make of it."""

from dataclasses import replace

import pytest
import yaml

from dse.plan.check import violations
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import PlanArrays
from dse.plan.stack import ReservedRatio, Stack, list_stacks, stack
from hardware.inputs import InputError
from tests.plan.problems import GENERIC, plan, problem

MIB = 2**20
CHANNELS = (
    dict.fromkeys(("megatron-2022", "megatron-2023", "megascale-2024", "deepspeed-2021"), 24)
    | dict.fromkeys(("generic", "maxtext-v5p", "mlperf-4.0-google", "mlperf-4.1-google"), 0)
    | dict.fromkeys(("mlperf-3.0-gaudi", "mlperf-5.1-amd"), 0)
)
"""Of NCCL in the logs that the stacks cite; none where there is no NCCL; 16 in all others."""


@pytest.mark.parametrize("name", list_stacks())
def test_a_group_has_the_channels_of_the_log_with_both_of_their_buffers(name):
    posed = problem("llama3-8b", devices=8, batch=8, software=stack(name))
    size = plan_costs(posed, plan(data=8, zero=1)).memory["communication"]
    assert size == CHANNELS.get(name, 16) * (10 + 2) * MIB


def without(own: Stack, fact: str) -> Stack:
    """The stack without one of its facts."""
    return own.model_copy(update={fact: getattr(own, fact).model_copy(update={"value": False})})


def test_torchtitan_keeps_the_buffers_of_gathered_ends():
    """Embedding and output matrix of Llama 3 8B once more, in 16 bits."""
    own = stack("torchtitan-2024")
    posed = problem("llama3-8b", devices=8, batch=8, software=own)
    mesh = plan(data=8, zero=3)
    kept = plan_costs(posed, mesh).memory["working"]
    less = plan_costs(replace(posed, stack=without(own, "buffers_gathered")), mesh).memory["working"]
    assert kept - less == pytest.approx(2 * 2 * 128256 * 4096, rel=1e-4)


@pytest.mark.parametrize(("precision", "more"), [("fp8", 1.5), ("mxfp8", 1.0), ("bf16", 1.0)])
def test_scales_of_present_tensors_are_read_for_8_bits_with_one_scale_a_tensor(precision, more):
    """Of vector work, casts alone take longer; the checker agrees."""
    own = stack("megatron-bridge")
    posed = problem("llama3-8b", "b200", devices=1, batch=1, precision=precision, software=own)
    known = replace(posed, stack=own.model_copy(update={"cast_bytes": Stack.model_fields["cast_bytes"].default}))
    free = replace(posed, stack=own.model_copy(update={"cast_bytes": own.cast_bytes.model_copy(update={"value": 0})}))
    single = plan(precision=precision)
    seconds = [plan_costs(each, single).time_s["vector"] for each in (posed, known, free)]
    arrays = [evaluate(each, PlanArrays.of([single])).time_s["vector"][0] for each in (posed, known, free)]
    assert arrays == pytest.approx(seconds, rel=1e-12)
    assert seconds[0] >= seconds[1]
    if more > 1:
        assert seconds[0] - seconds[2] == pytest.approx(more * (seconds[1] - seconds[2]))
    else:
        assert seconds[0] == seconds[1] == seconds[2]


def test_megatron_2025_sorts_tokens_and_hides_nothing_of_replicas():
    own = stack("megatron-2025")
    posed = problem("mixtral-8x7b", devices=8, batch=8, software=own)
    mesh = plan(data=8, expert=4)
    sorting, not_sorting = (
        plan_costs(replace(posed, stack=each), mesh).time_s["vector"] for each in (own, without(own, "sorts_tokens"))
    )
    assert sorting > not_sorting
    assert not own.overlaps_data.value


def reserving(ratio):
    """The generic stack with an allocator that reserves so many times what tensors take, and NCCL's buffers."""
    own = stack("megatron-2022").communicator_bytes
    return GENERIC.model_copy(
        update={"reserved": ReservedRatio(value=ratio, source="a test"), "communicator_bytes": own}
    )


def test_what_an_allocator_reserves_is_a_part_of_memory_beside_the_buffers_of_collectives():
    posed = problem("llama3-8b", devices=8, batch=8, software=reserving(1.25))
    mesh = plan(data=4, tensor=2, zero=1)
    costs = plan_costs(posed, mesh)
    bare = plan_costs(replace(posed, stack=posed.stack.model_copy(update={"reserved": None})), mesh)
    buffers = bare.memory["communication"]
    assert buffers > 0
    moving = bare.memory["activations"] + bare.memory["working"]
    assert costs.memory_bytes == pytest.approx(bare.memory_bytes + 0.25 * moving)
    assert costs.memory == pytest.approx(bare.memory | {"reserved": 0.25 * moving})
    arrays = evaluate(posed, PlanArrays.of([mesh]))
    assert {name: part[0] for name, part in arrays.memory.items()} == pytest.approx(costs.memory)
    assert list(arrays.memory) == list(costs.memory)
    assert costs.step_s == bare.step_s


@pytest.mark.parametrize("software", [reserving(1.25), stack("torchtitan-2024")], ids=["generic", "torchtitan"])
def test_twice_the_replicas_change_reserved_memory_by_their_state_alone(software):
    """Under ZeRO 3 a rank of 16 has half of the weights, gradients and moments of one of 8; all else stays."""
    eight, sixteen = (
        plan_costs(
            problem("llama3-8b", devices=devices, batch=devices, software=software), plan(data=devices, zero=3)
        ).memory
        for devices in (8, 16)
    )
    state = (software.weight_bytes.value + software.gradient_bytes.value + software.optimizer_bytes.value) * (
        problem("llama3-8b").model.parameters
    )
    before, after = (sum(memory.values()) - memory["communication"] for memory in (eight, sixteen))
    assert before - after == pytest.approx(state * (1 / 8 - 1 / 16), rel=1e-9)
    assert before - after == pytest.approx(
        sum(eight[part] - sixteen[part] for part in ("weights", "gradients", "optimizer"))
    )


def test_a_plan_whose_tensors_fit_and_what_is_reserved_does_not_is_refused():
    mesh = plan(data=8, zero=1, microbatch=1)
    for ratio, fits in ((1.0, True), (4.0, False)):
        posed = problem("llama3-8b", devices=8, batch=8, software=reserving(ratio))
        broken = violations(posed, mesh, plan_costs(posed, mesh).step_s)
        assert bool(broken) is not fits
        assert fits or "the fullest rank needs" in broken[0]


def test_an_answer_says_which_memory_it_gives(dse):
    asked = ("predict", "llama3-8b", "--on", "h100-sxm", "--global-batch", 16, "--plan", "data=8,microbatch=1,zero=3")
    for name, said in (("torchtitan-2024", "memory is what the allocator reserves: 1.095 times"),
                       ("generic", "memory of tensors is the peak of what is allocated")):  # fmt: skip
        answered = dse(*asked, "--notes", "--stack", name)
        assert answered.code == 0, answered.err
        assert said in " ".join(answered.out.split())
        assert ("allocator overhead" in answered.out) is (name == "torchtitan-2024")


def test_stacks_without_a_ratio_are_written_as_before_there_was_one(tmp_path):
    for name in list_stacks():
        document = stack(name).model_dump(mode="json")
        assert ("reserved" in document) is (name == "torchtitan-2024")
        assert Stack.model_validate(document) == stack(name)
    file = tmp_path / "ours.yaml"
    document["reserved"] = {"value": 0.9, "source": "a test"}
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=r"reserved\.value: 0\.9: must be at least 1"):
        stack(str(file))

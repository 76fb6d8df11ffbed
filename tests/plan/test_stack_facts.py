"""What stacks state of their software, by what predictions make of it."""

from dataclasses import replace

import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.stack import Stack, list_stacks, stack
from tests.plan.problems import plan, problem

MIB = 2**20
CHANNELS = {"generic": 0, "megatron-2022": 24}
"""Of NCCL in the logs that the stacks cite; 16 in all others."""


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


def test_megatron_2025_sorts_tokens_and_hides_nothing_of_replicas():
    own = stack("megatron-2025")
    posed = problem("mixtral-8x7b", devices=8, batch=8, software=own)
    mesh = plan(data=8, expert=4)
    sorting, not_sorting = (
        plan_costs(replace(posed, stack=each), mesh).time_s["vector"] for each in (own, without(own, "sorts_tokens"))
    )
    assert sorting > not_sorting
    assert not own.overlaps_data.value

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.parallel.pipeline.exact import every
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem, Profile
from hardware.network import Network
from tests.parallel.pipeline.cases import plans, problems, profile_of, whole_steps

NET = Network("slow", 10.0)
PROFILE = Profile(
    forward_s=np.array([4.0, 2.0, 6.0]),
    backward_s=np.array([8.0, 4.0, 12.0]),
    cut_bytes=np.array([0, 40, 80, 0]),
    weight_bytes=np.array([100, 0, 1000]),
    variables=np.array([1, 0, 2]),
    stash_bytes=np.array([8, 16, 32]),
)
PROBLEM = PipelineProblem(PROFILE, NET, devices=3, stages=2, microbatches=2)
PLAN = PipelinePlan((2,), (1,))


def test_the_length_of_two_stages_by_hand():
    """Stage 0 alone on a device: 3 + 6 s. Stage 1 on two: 1.5 + 3 s, all-reduce 2 · 1000 / 2 / 10 s.

    The cut sends 40 bytes of a microbatch to two devices, 20 each, one after the other.
    """
    parts = length(PROBLEM, PLAN)
    first, second = parts.stages
    assert (first.forward_s, first.backward_s, first.send_s, first.all_reduce_s) == (3, 6, 4, 0)
    assert (second.forward_s, second.backward_s, second.send_s, second.all_reduce_s) == (1.5, 3, 0, 100)
    assert (parts.first_s, parts.slowest_s, parts.exposed_s) == (9 + 8 + 4.5, 9, 100 - (6 + 4))
    assert parts.length_s == 21.5 + 9 + 90


def test_memory_holds_state_and_what_is_in_flight():
    kept, again = (length(replace(PROBLEM, recompute=each, state_factor=4), PLAN).stages for each in (False, True))
    assert kept[0].device_bytes == 4 * 100 + 2 * 24 / 2
    assert kept[1].device_bytes == 4 * 1000 + 32 / 2 / 2
    assert again[0].device_bytes == 4 * 100 + 24 / 2
    assert again[1].device_bytes == 4 * 1000 + (32 + 80) / 2 / 2
    assert again[1].backward_s == 3 + 1.5


def test_what_is_wrong_with_a_plan():
    assert faults(PROBLEM, PLAN) == []
    assert faults(PROBLEM, PipelinePlan((), (1,))) == ["cuts must have 1 entries for 2 stages, but has 0"]
    assert faults(PROBLEM, PipelinePlan((2,), (3,))) == ["device_cuts must be increasing and from 1 to 2, but are 3"]
    assert faults(replace(PROBLEM, stages=3), PipelinePlan((1, 2), (1, 2))) == [
        "stage 1 must have at least one trained tensor"
    ]
    needy = replace(PROBLEM, memory_bytes=1000)
    assert faults(needy, PLAN) == ["stage 1 must fit in 1,000 bytes per device, but needs 1,008"]
    assert faults(replace(PROBLEM, memory_bytes=1008), PLAN) == []


@settings(deadline=None)
@given(problems() | whole_steps(), st.data())
def test_a_batch_is_never_shorter_than_its_work_on_all_devices(problem, data):
    options = list(plans(problem, list(every(problem.devices, problem.stages))))
    if options:
        plan = data.draw(st.sampled_from(options))
        work_s = problem.microbatches * sum(each.sum() for each in problem.passes_s(1))
        assert length(problem, plan).length_s >= work_s / problem.devices * (1 - 1e-9)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"stages": 4}, "1 <= stages <= devices"),
        ({"stages": 0}, "1 <= stages <= devices"),
        ({"microbatches": 0}, "microbatches >= 1"),
        ({"state_factor": 0.5}, "state_factor >= 1"),
    ],
)
def test_a_problem_that_cannot_be(change, rule):
    with pytest.raises(ValueError, match=rule):
        replace(PROBLEM, **change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"cut_bytes": np.array([0, 1, 0])}, "`cut_bytes` must have 4 entries"),
        ({"forward_s": np.array([1.0, np.nan, 0])}, "`forward_s` must be finite and not negative"),
        ({"weight_bytes": np.array([1, -1, 0])}, "`weight_bytes` must be finite and not negative"),
    ],
)
def test_a_profile_that_cannot_be(change, rule):
    with pytest.raises(ValueError, match=rule):
        replace(profile_of(3, 0, 100), **change)

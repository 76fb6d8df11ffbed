"""Generated profiles and problems of pipelines, and the shortest plan by enumeration."""

import itertools
import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem, Profile, SharedWeights
from dse.parallel.pipeline.share_times import EqualShares
from dse.parallel.problem import Device
from hardware.network_specs import network
from hardware.product_rates import ProductRates


def profile_of(points, seed, weight_bytes):
    """A profile of random figures; some points have no variable, but the first has one."""
    random = np.random.default_rng(seed)
    forward_s = random.exponential(1, points)
    weights = np.where((random.random(points) < 0.6) | (np.arange(points) == 0), random.exponential(1, points), 0)
    cut_bytes = random.choice([0, 1, 2, 3, 8], points + 1) * 20_000_000
    cut_bytes[[0, -1]] = 0
    weight_bytes = (weights / weights.sum() * weight_bytes).astype(np.int64)
    shared = []
    for _ in range(random.integers(0, 3) if points > 2 else 0):
        readers = np.sort(random.choice(points, random.integers(2, 4), replace=False)).tolist()
        # The two may have the same first reader, whose bytes are those of both.
        shared.append(SharedWeights(("tied",), int(weight_bytes[readers[0]]) // 2, tuple(readers)))
    return Profile(
        forward_s=forward_s / forward_s.sum(),
        backward_s=2 * forward_s / forward_s.sum() * random.uniform(0.5, 1.5, points),
        cut_bytes=cut_bytes,
        weight_bytes=weight_bytes,
        variables=(weights > 0).astype(np.int64),
        stash_bytes=(random.random(points) * 1e8).astype(np.int64),
        shared=tuple(shared),
    )


def shares_of(profile, seed):
    """Random operations of the points, some of which read more than grows with the batch."""
    random = np.random.default_rng(seed)
    count = 3 * profile.points
    return EqualShares(
        points=profile.points,
        device=Device("any", ProductRates("any", (("fp32", 1e12),)), 1e9, 1 << 34),
        place=random.integers(0, profile.points, count),
        is_forward=random.random(count) < 0.4,
        repeats=random.integers(1, 3, count),
        computing_s=random.exponential(0.1, count) * (random.random(count) < 0.7),
        divided=random.random(count) < 0.8,
        batch_bytes=random.exponential(1e8, count),
        whole_bytes=random.exponential(1e7, count) * (random.random(count) < 0.7),
        once_s=random.exponential(0.01, profile.points),
        joined=tuple((int(point), int(random.exponential(1e8))) for point in random.integers(0, profile.points, 6)),
        copied=tuple((each.weight_bytes,) for each in profile.shared),
    )


@st.composite
def problems(draw):
    """Few points and devices, networks with borders of servers between them."""
    net = network(draw(st.sampled_from(["dapple", "v100-ethernet", "dgx-a100"])))
    stages = draw(st.integers(1, 4))
    return PipelineProblem(
        profile=profile_of(draw(st.integers(stages, 9)), draw(st.integers(0, 2**32)), 10 ** draw(st.floats(6, 10.5))),
        network=replace(net, inner_accelerators=draw(st.sampled_from([1, 2, 3, 8]))),
        devices=draw(st.integers(stages, 7)),
        stages=stages,
        microbatches=draw(st.integers(1, 8)),
        memory_bytes=draw(st.none() | st.integers(10**8, 3 * 10**9)),
        state_factor=draw(st.sampled_from([1.0, 2.0, 4.0])),
        recompute=draw(st.booleans()),
    )


@st.composite
def whole_steps(draw):
    """The same, priced as whole steps."""
    problem = draw(problems())
    shares = shares_of(problem.profile, draw(st.integers(0, 2**32)))
    return replace(problem, shares=shares, update_s_per_byte=draw(st.sampled_from([0.0, 1e-11])))


def plans(problem, device_cuts):
    """Every plan without faults whose devices are cut in one of the given ways."""
    for cuts in itertools.combinations(range(1, problem.profile.points), problem.stages - 1):
        for devices in device_cuts:
            plan = PipelinePlan(cuts, devices)
            if not faults(problem, plan):
                yield plan


def shortest_length_s(problem, device_cuts):
    """By enumeration; infinite where there is no plan."""
    return min((length(problem, plan).length_s for plan in plans(problem, device_cuts)), default=math.inf)

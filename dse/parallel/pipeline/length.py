"""The length of a pipeline: what a batch takes, by definition. Searches share nothing with this but the network.

Stage s does its share of a microbatch in F_s seconds forward and B_s backward; the cut behind it takes X_s each way.
By the paper a stage of D devices takes the time of one divided by D, and all-reduces all its gradients as one array;
where the length is that of a whole step, its devices read weights whole (:mod:`dse.parallel.pipeline.shares`).
Stages and cuts work at the same time, on different microbatches, and a cut counts as a stage of its own (Fan et al.,
DAPPLE, PPoPP 2021, section 4). The first microbatch passes all of them; every further one comes out later by what the
slowest of them needs:

    L = Σ (F_s + B_s) + Σ 2 X_s + (M - 1) · max(F_s + B_s, 2 X_s) + max(0, max_s(AR_s - Σ_{t < s} (B_t + X_t)))

Stage s all-reduces its gradients (AR_s) as soon as its last backward pass is done, while the stages before it
still have theirs to do; only what lasts longer than that is exposed.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem


@dataclass(frozen=True, slots=True)
class StageTimes:
    """What a stage takes.

    Attributes:
        forward_s, backward_s: of a microbatch.
        send_s: of a microbatch's activations to the next stage, and of their gradients back; 0 for the last stage.
        all_reduce_s: of its gradients, once per batch; with the optimizer's update, where that counts.
        device_bytes: on each of its devices.
    """

    forward_s: float
    backward_s: float
    send_s: float
    all_reduce_s: float
    device_bytes: float


@dataclass(frozen=True, slots=True)
class Length:
    """The parts of the length.

    Attributes:
        stages: in their order.
        first_s: until the first microbatch is through.
        slowest_s: that every further microbatch needs.
        exposed_s: all-reduces that nothing hides.
        length_s: the whole.
    """

    stages: tuple[StageTimes, ...]
    first_s: float
    slowest_s: float
    exposed_s: float
    length_s: float


def length(problem: PipelineProblem, plan: PipelinePlan) -> Length:
    """The length of a plan without faults (:func:`faults`); O(points)."""
    return length_of_stages(_stages(problem, plan), problem.microbatches)


def length_of_stages(stages: Sequence[StageTimes], microbatches: int) -> Length:
    """The length of a pipeline of these stages."""
    first_s = sum(each.forward_s + each.backward_s + 2 * each.send_s for each in stages)
    slowest_s = max(max(each.forward_s + each.backward_s, 2 * each.send_s) for each in stages)
    exposed_s = drain_s = 0.0
    for each in stages:
        exposed_s = max(exposed_s, each.all_reduce_s - drain_s)
        drain_s += each.backward_s + each.send_s
    total_s = first_s + (microbatches - 1) * slowest_s + exposed_s
    return Length(tuple(stages), first_s, slowest_s, exposed_s, total_s)


def faults(problem: PipelineProblem, plan: PipelinePlan) -> list[str]:
    """What is wrong with a plan, one sentence each."""
    for name, cuts, end in (
        ("cuts", plan.cuts, problem.profile.points),
        ("device_cuts", plan.device_cuts, problem.devices),
    ):
        if len(cuts) != problem.stages - 1:
            return [f"{name} must have {problem.stages - 1} entries for {problem.stages} stages, but has {len(cuts)}"]
        bounds = (0, *cuts, end)
        if any(one >= other for one, other in itertools.pairwise(bounds)):
            return [f"{name} must be increasing and from 1 to {end - 1}, but are {', '.join(map(str, cuts))}"]
    violations = []
    for number, ((points, _), times) in enumerate(zip(plan.ranges(problem), _stages(problem, plan), strict=True)):
        if not problem.profile.variables[points.start : points.stop].any():
            violations.append(f"stage {number} must have at least one trained tensor")
        if problem.memory_bytes is not None and times.device_bytes > problem.memory_bytes:
            rule = f"stage {number} must fit in {problem.memory_bytes:,} bytes per device"
            violations.append(f"{rule}, but needs {times.device_bytes:,.0f}")
    return violations


def _stages(problem: PipelineProblem, plan: PipelinePlan) -> tuple[StageTimes, ...]:
    profile, count, ranges = problem.profile, problem.microbatches, list(plan.ranges(problem))
    stages = []
    for number, (points, devices) in enumerate(ranges):
        of = slice(points.start, points.stop)
        weight_bytes = profile.stage_weight_bytes(points)
        forward_s, backward_s = problem.passes_s(len(devices))
        share = 1 / (count * len(devices))
        stash_bytes, flying = int(profile.stash_bytes[of].sum()), problem.in_flight(number)
        if problem.recompute:
            stash_bytes += flying * int(profile.cut_bytes[points.start])
        else:
            stash_bytes *= flying
        send_s = 0.0
        if number + 1 < len(ranges):
            sent_bytes = int(profile.cut_bytes[points.stop]) / count
            send_s = problem.network.stage_transfer_s(sent_bytes, devices, ranges[number + 1][1])
        stages.append(
            StageTimes(
                forward_s=float(forward_s[of].sum()),
                backward_s=float(backward_s[of].sum()),
                send_s=send_s,
                all_reduce_s=problem.stage_closing_s(points, devices),
                device_bytes=weight_bytes * problem.state_factor + stash_bytes * share,
            )
        )
    return tuple(stages)

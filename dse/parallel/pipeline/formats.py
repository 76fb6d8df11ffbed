"""The solution and the metrics of a pipeline, as in a result file."""

from typing import Annotated, Any

from pydantic import Field

from dse.parallel.pipeline.baselines import baselines
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.pipeline.question import PipelineQuestion
from hardware.inputs import Document, fail, nearest, validate

_Count = Annotated[int, Field(ge=0)]


class PipelineSolution(Document):
    """``solution`` of ``--strategy pipeline``.

    Attributes:
        cuts: the instruction that each stage after the first begins with.
        device_cuts: the first device of each stage after the first.
    """

    cuts: list[str]
    device_cuts: list[_Count]


class StageDocument(Document):
    """A stage.

    Attributes:
        first, last: the instructions that its forward part begins and ends with, in the order of the step's points.
        points: the instructions, or loops, of its forward part.
        devices: how many it has.
        variables, weight_bytes: trained tensors that it reads, and their bytes.
        copies: trained tensors that it reads and an earlier stage has too.
        forward_s, backward_s: of a microbatch.
        send_bytes: of activations of a microbatch to the next stage.
        send_s: their time, one way.
        all_reduce_s: of its gradients, once per batch.
        device_bytes: stored on each of its devices.
    """

    first: str
    last: str
    points: _Count
    devices: _Count
    variables: _Count
    weight_bytes: _Count
    copies: list[str]
    forward_s: float
    backward_s: float
    send_bytes: float
    send_s: float
    all_reduce_s: float
    device_bytes: float


class BaselineDocument(Document):
    """A plan to compare with; the memory limit is ignored.

    Attributes:
        length_s: of the pipeline.
        device_bytes: the maximum that a device stores.
    """

    length_s: float
    device_bytes: float


class PipelineMetrics(Document):
    """``metrics`` of ``--strategy pipeline``.

    Attributes:
        length_s: of the pipeline: first_s, as often slowest_s as further microbatches, and exposed_s.
        first_s: until the first microbatch has passed.
        slowest_s: added by every further microbatch.
        exposed_s: all-reduces that are not hidden.
        one_device_s: forward and backward pass of a batch on one device.
        update_s: the update of all trained tensors on one device, which the length excludes.
        stages: from the first to the last.
        baselines: plans that need no search, by name.
    """

    length_s: float
    first_s: float
    slowest_s: float
    exposed_s: float
    one_device_s: float
    update_s: float
    stages: list[StageDocument]
    baselines: dict[str, BaselineDocument]


def solution_document(question: PipelineQuestion, plan: PipelinePlan) -> dict[str, Any]:
    """``plan`` as the ``solution`` of a result."""
    names = question.source.instructions
    return PipelineSolution(cuts=[names[cut] for cut in plan.cuts], device_cuts=list(plan.device_cuts)).model_dump()


def plan_of(question: PipelineQuestion, document: Any, path: str) -> PipelinePlan:
    """What :func:`solution_document` wrote.

    Raises:
        InputError: an instruction that no stage can begin with, or something missing.
    """
    parsed = validate(PipelineSolution, document, path)
    places = {name: place for place, name in enumerate(question.source.instructions)}
    for name in parsed.cuts:
        if name not in places:
            rule = "must be an instruction of the forward pass at which a stage can begin"
            raise fail(path, "solution.cuts", name, rule, nearest(name, places))
    return PipelinePlan(tuple(places[name] for name in parsed.cuts), tuple(parsed.device_cuts))


def metrics(question: PipelineQuestion, plan: PipelinePlan) -> dict[str, Any]:
    """``metrics`` of a plan without faults, by the definition of its length."""
    problem, names = question.problem, question.source.instructions
    profile = problem.profile
    of = length(problem, plan)
    stages = []
    for (points, devices), times in zip(plan.ranges(problem), of.stages, strict=True):
        sent_bytes = float(profile.cut_bytes[points.stop]) / problem.microbatches
        stages.append(
            StageDocument(
                first=names[points.start],
                last=names[points.stop - 1],
                points=len(points),
                devices=len(devices),
                variables=profile.stage_variables(points),
                weight_bytes=profile.stage_weight_bytes(points),
                copies=_copies(problem, points),
                forward_s=times.forward_s,
                backward_s=times.backward_s,
                send_bytes=sent_bytes if points.stop < profile.points else 0.0,
                send_s=times.send_s,
                all_reduce_s=times.all_reduce_s,
                device_bytes=times.device_bytes,
            )
        )
    return PipelineMetrics(
        length_s=of.length_s,
        first_s=of.first_s,
        slowest_s=of.slowest_s,
        exposed_s=of.exposed_s,
        one_device_s=float((profile.forward_s + profile.backward_s).sum()),
        update_s=question.source.update_s,
        stages=stages,
        baselines={name: _baseline(each, plan) for name, (each, plan) in baselines(question).items()},
    ).model_dump()


def _copies(problem: PipelineProblem, points: range) -> list[str]:
    return [
        name
        for each in problem.profile.shared
        if each.readers[0] < points.start and any(reader in points for reader in each.readers)
        for name in each.names
    ]


def _baseline(problem: PipelineProblem, plan: PipelinePlan) -> BaselineDocument:
    of = length(problem, plan)
    return BaselineDocument(length_s=of.length_s, device_bytes=max(each.device_bytes for each in of.stages))

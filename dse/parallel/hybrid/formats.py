"""The solution and the metrics of a hybrid plan, as in a result file."""

from typing import Annotated, Any

from pydantic import Field

from dse.parallel.formats import SolutionDocument, Stated, plan_document, stated_from_document
from dse.parallel.hybrid.problem import HybridPlan, HybridProblem
from dse.parallel.hybrid.stage_problem import StageProblem
from dse.parallel.pipeline.length import Length
from dse.parallel.pipeline.question import Source
from dse.parallel.prices import Prices
from hardware.inputs import Document, fail, nearest, validate

_Count = Annotated[int, Field(ge=0)]


class HybridSolution(Document):
    """``solution`` of ``--strategy hybrid``.

    Attributes:
        microbatches: of a batch.
        cuts, device_cuts: as of a pipeline (:class:`~dse.parallel.pipeline.formats.PipelineSolution`).
        replicas: of each stage; as many as its devices where these do equal shares. Of the only stage of one
            microbatch the devices along the outer axis of its mesh.
        shardings: of each stage the plan over the devices of a replica, as of a sharded step; None of equal shares.
    """

    microbatches: Annotated[int, Field(ge=1)]
    cuts: list[str]
    device_cuts: list[_Count]
    replicas: list[_Count]
    shardings: list[SolutionDocument | None]


class HybridStageDocument(Document):
    """A stage.

    Attributes:
        first, last: the instructions that its forward part begins and ends with.
        points: the instructions, or loops, of its forward part.
        devices, replicas: how many it has.
        variables: trained tensors that it reads.
        forward_s, backward_s: of a microbatch.
        send_s: of its activations to the next stage.
        closing_s: joining its gradients and updating its trained tensors, once per batch.
        device_bytes: stored on each of its devices.
    """

    first: str
    last: str
    points: _Count
    devices: _Count
    replicas: _Count
    variables: _Count
    forward_s: float
    backward_s: float
    send_s: float
    closing_s: float
    device_bytes: float


class HybridMetrics(Document):
    """``metrics`` of ``--strategy hybrid``.

    Attributes:
        step_s: the time of a step: first_s, as often slowest_s as further microbatches, and exposed_s.
        first_s: until the first microbatch has passed.
        slowest_s: added by every further microbatch.
        exposed_s: closings that nothing hides.
        one_device_s: forward and backward pass and update on one device.
        stages: from the first to the last.
    """

    step_s: float
    first_s: float
    slowest_s: float
    exposed_s: float
    one_device_s: float
    stages: list[HybridStageDocument]


def solution_document(problem: HybridProblem, source: Source, plan: HybridPlan) -> dict[str, Any]:
    """``plan`` as the ``solution`` of a result."""
    replicas, shardings = [], []
    for number, (points, devices, sharding) in enumerate(plan.stages(problem)):
        mesh = 1 if sharding is None else sharding.mesh
        replicas.append(len(devices) // mesh)
        document = None
        if sharding is not None:
            stage = stage_of(problem, points, devices, mesh, number, len(plan.shardings))
            document = plan_document(stage, Prices(stage), sharding.plan)
        shardings.append(document)
    names = source.instructions
    return {
        "microbatches": problem.base.microbatches,
        "cuts": [names[cut] for cut in plan.cuts],
        "device_cuts": list(plan.device_cuts),
        "replicas": replicas,
        "shardings": shardings,
    }


def stage_of(
    problem: HybridProblem, points: range, devices: range, mesh: int, number: int, stages: int
) -> StageProblem:
    """The sharding problem of stage ``number`` of ``stages``."""
    in_flight = min(problem.base.microbatches, stages - number)
    return problem.stage_problem(problem.steps.stage(points), len(devices), mesh, in_flight)


def stated_of(source: Source, document: Any, path: str) -> tuple[HybridSolution, tuple[int, ...]]:
    """What :func:`solution_document` wrote, and the points that stages begin with.

    Raises:
        InputError: an instruction that no stage can begin with, entries that are not stages, or something missing.
    """
    parsed = validate(HybridSolution, document, path)
    places = {name: place for place, name in enumerate(source.instructions)}
    for name in parsed.cuts:
        if name not in places:
            rule = "must be an instruction of the forward pass at which a stage can begin"
            raise fail(path, "solution.cuts", name, rule, nearest(name, places))
    stages = len(parsed.cuts) + 1
    for key in ("replicas", "shardings"):
        if len(getattr(parsed, key)) != stages:
            raise fail(
                path, f"solution.{key}", len(getattr(parsed, key)), f"must have an entry for each of {stages} stages"
            )
    return parsed, tuple(places[name] for name in parsed.cuts)


def stated_sharding(stage: StageProblem, document: SolutionDocument, path: str) -> Stated:
    """The sharding of a stage, as it was read."""
    return stated_from_document(stage, document.model_dump(), path)


def metrics(problem: HybridProblem, source: Source, plan: HybridPlan, of: Length) -> dict[str, Any]:
    """``metrics`` of a plan of these times."""
    profile, names = problem.base.profile, source.instructions
    stages = []
    for (points, devices, sharding), times in zip(plan.stages(problem), of.stages, strict=True):
        stages.append(
            HybridStageDocument(
                first=names[points.start],
                last=names[points.stop - 1],
                points=len(points),
                devices=len(devices),
                replicas=len(devices) // (1 if sharding is None else sharding.mesh),
                variables=profile.stage_variables(points),
                forward_s=times.forward_s,
                backward_s=times.backward_s,
                send_s=times.send_s,
                closing_s=times.all_reduce_s,
                device_bytes=float(times.device_bytes),
            )
        )
    return HybridMetrics(
        step_s=of.length_s,
        first_s=of.first_s,
        slowest_s=of.slowest_s,
        exposed_s=of.exposed_s,
        one_device_s=float((profile.forward_s + profile.backward_s).sum()) + source.update_s,
        stages=stages,
    ).model_dump()

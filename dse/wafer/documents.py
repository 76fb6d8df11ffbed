"""``solution`` and ``metrics`` of a result, typed: of one placement, or of the points of a sweep."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel, Tag

from dse.wafer.problem import PlacedKernel, Rotation, WaferPlacement, WaferProblem
from hardware.inputs import Document, Fault, InputError, nearest, validate

_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]

PointStatus = Literal["optimal", "feasible", "infeasible", "unknown"]


class PlacedDocument(Document):
    """A placed kernel.

    Attributes:
        h, w: execution parameters of the kernel.
        c, k: execution parameters of each of its convolutions.
        x, y: lower corner of the rectangle as it lies, in tiles.
        rotation: ``R90``: turned by a right angle.
    """

    h: _Positive
    w: _Positive
    c: list[_Positive]
    k: list[_Positive]
    x: _Count
    y: _Count
    rotation: Rotation


class PlacementDocument(Document):
    """``solution`` of one wafer.

    Attributes:
        kernels: by name.
    """

    kernels: dict[str, PlacedDocument]


class PointDocument(Document):
    """A point of a sweep.

    Attributes:
        width, height: of its wafer, in tiles.
        memlimit: words of a tile.
        wdeltat, wlength, wadapter: its weights of time, distance and adapters.
        tiles: of the wafer.
        status: of its answer.
        cost, time, distance, adapter: of its placement; null without one.
        bound: no placement costs less; null where nothing is known.
        front: whether it is on the front.
        certain: whether the bounds prove that it is, or that it is not.
        found_at: the point whose run found the placement.
        infeasibility: the proof that no placement is legal, or null.
        reason: why its own run did not end, or null.
        kernels: the placement as in :class:`PlacementDocument`, or null.
    """

    width: int
    height: int
    memlimit: int
    wdeltat: float
    wlength: float
    wadapter: float
    tiles: int
    status: PointStatus
    cost: float | None
    bound: _Amount | None
    time: float | None
    distance: float | None
    adapter: int | None
    front: bool
    certain: bool
    found_at: str | None
    infeasibility: dict[str, Any] | None
    reason: Annotated[str, Field(min_length=1)] | None
    kernels: dict[str, PlacedDocument] | None


class SweepDocument(Document):
    """``solution`` of a sweep.

    Attributes:
        points: by name, in the order of the grid.
    """

    points: dict[str, PointDocument]


class PlacementMetrics(Document):
    """``metrics`` of a placement.

    Attributes:
        time: of the slowest kernel, in the contest's unit.
        distance: sum over edges, in tiles.
        adapter: mismatches of h, w and c over all edges.
        kernels, edges: of the graph.
        utilisation: share of the wafer's tiles inside kernels.
        busy: share of the wafer's tiles that work, averaged over the time of the slowest kernel.
        unfinished: the parts that were interrupted.
    """

    time: float
    distance: float
    adapter: int
    kernels: int
    edges: int
    utilisation: float
    busy: float
    unfinished: list[Literal["search", "bound"]]


class NoPlacementMetrics(Document):
    """``metrics`` where no placement was found."""

    unfinished: list[Literal["search", "bound"]]


class SweepMetrics(Document):
    """``metrics`` of a sweep.

    Attributes:
        points: how many there are.
        infeasible: number of infeasible points.
        front: names of the points on it.
        unfinished: names of the points whose runs did not end.
    """

    points: _Count
    infeasible: _Count
    front: list[str]
    unfinished: list[str]


def _of_sweep(part: Mapping[str, Any]) -> str:
    return "sweep" if "points" in part else "placement"


def _metrics_kind(part: Mapping[str, Any]) -> str:
    return "nothing" if {*part} == {"unfinished"} else _of_sweep(part)


class Solution(RootModel[Any]):
    """``solution`` of a result, where there is one."""

    root: Annotated[
        Annotated[PlacementDocument, Tag("placement")] | Annotated[SweepDocument, Tag("sweep")],
        Discriminator(_of_sweep),
    ]


class Metrics(RootModel[Any]):
    """``metrics`` of a result."""

    root: Annotated[
        Annotated[PlacementMetrics, Tag("placement")]
        | Annotated[SweepMetrics, Tag("sweep")]
        | Annotated[NoPlacementMetrics, Tag("nothing")],
        Discriminator(_metrics_kind),
    ]


def placement_document(problem: WaferProblem, placement: WaferPlacement) -> dict[str, Any]:
    """A placement as the ``solution`` of a result file."""
    return {
        "kernels": {
            kernel.name: asdict(each) | {"c": list(each.c), "k": list(each.k)}
            for kernel, each in zip(problem.kernels, placement.placed, strict=True)
        }
    }


def placement_from_document(problem: WaferProblem, document: Any, path: str | Path) -> WaferPlacement:
    """The placement that :func:`placement_document` wrote; whether it is legal is for the checker to say.

    Raises:
        InputError: the document is malformed, names an unknown kernel or leaves one out.
    """
    given = validate(PlacementDocument, document, path).kernels
    names = [kernel.name for kernel in problem.kernels]
    faults = [
        Fault(str(path), f"kernels.{name}", "", "must be a kernel of the graph", nearest(name, names))
        for name in given
        if name not in names
    ]
    faults += [Fault(str(path), f"kernels.{name}", "", "must be placed") for name in names if name not in given]
    if faults:
        raise InputError(faults)
    return WaferPlacement(
        tuple(
            PlacedKernel(each.h, each.w, tuple(each.c), tuple(each.k), each.x, each.y, each.rotation)
            for each in map(given.__getitem__, names)
        )
    )

"""``solution`` and ``metrics`` of a result, typed: of one placement, or of the points of a sweep."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag

from dse.wafer.problem import PlacedKernel, Rotation, WaferPlacement, WaferProblem
from hardware.inputs import Fault, InputError, nearest, validate

_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]

PointStatus = Literal["optimal", "feasible", "infeasible", "unknown"]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _PlacedDocument(_Document):
    h: _Positive
    w: _Positive
    c: list[_Positive]
    k: list[_Positive]
    x: _Count
    y: _Count
    rotation: Rotation


class PlacementDocument(_Document):
    """A placement by the names of its kernels."""

    kernels: dict[str, _PlacedDocument]


class PointDocument(_Document):
    """A point of a sweep.

    Attributes:
        width, height, memlimit, wdeltat, wlength, wadapter, tiles: its wafer and weights.
        status: whether it is answered, and how surely.
        cost, time, distance, adapter: of its placement; None without one.
        bound: no placement costs less; None where nothing is known.
        front, certain: whether it is on the front, and whether the bounds prove that.
        found_at: the point whose run found the placement.
        infeasibility: the proof that no placement is legal, or None.
        reason: why its own run is not whole, or None.
        kernels: the placement as in :class:`PlacementDocument`, or None.
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
    kernels: dict[str, _PlacedDocument] | None


class SweepDocument(_Document):
    """The points of a sweep by name, in the order of the grid."""

    points: dict[str, PointDocument]


class PlacementMetrics(_Document):
    """``metrics`` of a placement; ``unfinished``: what was stopped before its end."""

    time: float
    distance: float
    adapter: int
    kernels: int
    edges: int
    utilisation: float
    busy: float
    unfinished: list[Literal["search", "bound"]]


class NoPlacementMetrics(_Document):
    """``metrics`` where no placement was found."""

    unfinished: list[Literal["search", "bound"]]


class SweepMetrics(_Document):
    """``metrics`` of a sweep: numbers of points, and the names of those on the front and of those that did not end."""

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

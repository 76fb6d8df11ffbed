"""The dimensions that are decided, the linkage groups that they belong to, and which groups exclude each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from dse.parallel.mesh import Mesh
from dse.parallel.problem import ParallelProblem
from dse.sharding.factors import Place
from policies.parallel.episodes import Masks

Integers = npt.NDArray[np.int64]

Decided = Literal["variables", "inputs"]
"""Dimensions of trained tensors (operator plans), or of the inputs that are neither trained nor kept (data plans)."""


@dataclass(frozen=True, eq=False)
class Dimensions:
    """What an episode decides, in its order: dimensions of larger groups first (paper, 4.2).

    Attributes:
        places: (value, dimension) of each, [D].
        group: of each by its number among the G groups here, [D]; -1 for one that is always whole.
        numbers: of the groups in the step's linkage, [G].
        excludes: whether two groups cannot both be split, [G, G].
        splittable: whether a group can be split into as many parts as there are devices, [G].
    """

    places: tuple[Place, ...]
    group: Integers
    numbers: tuple[int, ...]
    excludes: Masks
    splittable: Masks

    @cached_property
    def weights(self) -> Integers:
        """Decided dimensions of each group, [G]."""
        return np.bincount(self.group[self.group >= 0], minlength=len(self.numbers)).astype(np.int64)

    @cached_property
    def first(self) -> Integers:
        """The place in the order of each group's first dimension, [G]."""
        return np.array(
            [int(np.flatnonzero(self.group == each)[0]) for each in range(len(self.numbers))], dtype=np.int64
        )


def axis_of(mesh: Mesh) -> int | None:
    """The only axis with several devices, over all of which the paper splits; None where there are more or fewer."""
    axes = [number for number, axis in enumerate(mesh.axes) if axis.size > 1]
    return axes[0] if len(axes) == 1 else None


def dimensions_of(problem: ParallelProblem, decided: Decided) -> Dimensions:
    """The dimensions of a problem whose mesh has one axis of several devices (:func:`axis_of`).

    Raises:
        ValueError: the mesh has another number of such axes.
    """
    axis = axis_of(problem.mesh)
    if axis is None:
        raise ValueError(f"the mesh must have exactly one axis with several devices, but is {problem.mesh.text}")
    graph, linkage, parts = problem.graph, problem.linkage, problem.mesh.axes[axis].size
    wanted = "parameter" if decided == "variables" else "input"
    values = [each.value for each in graph.arguments if each.role == wanted]
    places = [(value, dim) for value in values for dim in range(len(graph.values[value].dims))]
    known = [linkage.group_of.get(place) for place in places]
    sizes: dict[int, int] = {}
    for group in known:
        if group is not None:
            sizes[group] = sizes.get(group, 0) + 1
    ordered = sorted(
        range(len(places)), key=lambda place: (-sizes.get(_number(known[place]), 0), known[place] is None, place)
    )
    if decided == "variables":
        # Among groups of one size, all dimensions of a group are adjacent.
        ordered.sort(key=lambda place: (-sizes.get(_number(known[place]), 0), _number(known[place]), place))
    numbers = tuple(sizes)
    here = {number: place for place, number in enumerate(numbers)}
    excludes = np.zeros((len(numbers), len(numbers)), dtype=bool)
    for meeting in linkage.meetings:
        met = [here[number] for number in meeting.groups if number in here]
        excludes[np.ix_(met, met)] = True
    np.fill_diagonal(excludes, False)
    groups = [linkage.groups[number] for number in numbers]
    splittable = np.array([group.allows(parts) for group in groups], dtype=bool)
    chosen = [places[place] for place in ordered]
    of = np.array([here.get(_number(known[place]), -1) for place in ordered], dtype=np.int64)
    return Dimensions(tuple(chosen), of, numbers, excludes, splittable)


def _number(group: int | None) -> int:
    return -1 if group is None else group

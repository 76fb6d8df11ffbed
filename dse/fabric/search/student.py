"""A student: a small network that corrects the rules while placements are annealed.

It predicts the logarithm of the slots between two samples from features that moves keep up to date
(:mod:`dse.fabric.search.student_kernels`), in slots of the slowest unit in isolation. How one learns is none of this
module's business: it takes arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.fabric.bound import own_bound
from dse.fabric.model import Pipeline, UnitKind
from dse.fabric.rules import RULES, isolated_slots
from dse.fabric.search import student_kernels as kernels
from dse.fabric.search.student_kernels import StudentCase, StudentRoom
from hardware.fabrics import Fabric

Floats = npt.NDArray[np.float64]

MAX_WEIGHTS = 2_000
"""Weights of a student at most."""

CONSTANTS = ("base", "ideal", "bound", "ports", "units", "nets", "stages")
"""Features that are the same for every placement of a pipeline on a fabric."""

FEATURES = (
    *CONSTANTS,
    *RULES,
    "fourth_load",
    "eighth_load",
    "eighth_busy",
    "fourth_switched",
    "eighth_switched",
    "shared_load",
    "used",
    "excess",
    "eighth_rate",
    "crowded",
    "critical",
    "critical_load",
    "flit_depth",
    "late",
    "deep",
    "critical_depth",
)
"""Names of the features, all of them logarithms. *Slots* are counted in slots of the slowest unit in isolation.

- ``base``: these slots; ``ideal``: slots of work of the slowest compute unit; ``bound``: the least that one
  resource allows any placement; ``ports``: of the busiest memory unit; ``units``, ``nets`` and ``stages`` of the
  pipeline.
- the terms of the rules: links for each net; flits on a link; slots of the busiest link; the root of the mean square of
  loads; slots by ``expert`` and ``route``, and of the busiest channel off chip.
- sums over links of the fourth and eighth powers of their slots: as they are (``load``), with dead slots after every
  burst where nets share a link (``busy``), with dead slots after every flit there (``switched``); of flits per slot
  (``rate``); of slots times nets (``crowded``).
- sums over links of slots times nets (``shared_load``), of 1 where there is a net (``used``), of nets beyond one for
  each track (``excess``), and where there are such: of these times how critical all nets there are (``critical``), and
  of slots times that (``critical_load``). A net is critical by the fourth power of the slots of the slowest unit at it.
- sums over nets: of flits times links to the farthest sink (``flit_depth``), in slots; of the fourth power of the slots
  that these links take there and back, in slots of the source (``late``); of the fourth power of these links
  (``deep``); of these links times how critical the net is (``critical_depth``).
"""

LAYERS = MappingProxyType({"first": 2, "first_bias": 1, "second": 2, "second_bias": 1, "last": 1, "last_bias": 1})
"""Arrays of the network, with their dimensions."""


@dataclass(frozen=True, eq=False)
class Student:
    """A network of two hidden layers with x / (1 + |x|) after each, on standardised features.

    Attributes:
        weight: of the logarithm that it predicts, in the cost of a placement, in addition to the weighted rules.
        mean, scale: by which features are standardised, [F].
        first, first_bias: [F, H] and [H].
        second, second_bias: [H, J] and [J].
        last, last_bias: [J] and [1].

    Raises:
        ValueError: shapes that do not fit, numbers that are not finite, or too many weights.
    """

    weight: float
    mean: Floats
    scale: Floats
    first: Floats
    first_bias: Floats
    second: Floats
    second_bias: Floats
    last: Floats
    last_bias: Floats

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"`weight` must be finite and above 0, but got {self.weight}")
        width, second = self.first_bias.shape[0], self.second_bias.shape[0]
        shapes = {
            "mean": (len(FEATURES),),
            "scale": (len(FEATURES),),
            "first": (len(FEATURES), width),
            "first_bias": (width,),
            "second": (width, second),
            "second_bias": (second,),
            "last": (second,),
            "last_bias": (1,),
        }
        for name, shape in shapes.items():
            array: Floats = getattr(self, name)
            if array.shape != shape:
                raise ValueError(f"`{name}` must have shape {shape}, but has {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"`{name}` must hold finite numbers")
        if not (self.scale > 0).all():
            raise ValueError("every entry of `scale` must be above 0")
        if self.weights > MAX_WEIGHTS:
            raise ValueError(f"a student must have at most {MAX_WEIGHTS:,} weights, but has {self.weights:,}")

    @property
    def weights(self) -> int:
        """How many numbers were learned."""
        return int(sum(getattr(self, name).size for name in LAYERS))

    @property
    def layers(self) -> Mapping[str, Floats]:
        """The arrays of the network, and those that standardise, by name."""
        return {name: getattr(self, name) for name in ("mean", "scale", *LAYERS)}

    def predict(self, features: Floats) -> Floats:
        """The logarithms of slots that it expects of features, [S, F], each [S]; the definition, in plain form."""
        values = np.clip((features - self.mean) / self.scale, -kernels.MAX_RELATIVE, kernels.MAX_RELATIVE)
        hidden = _softsign(values @ self.first + self.first_bias)
        second = _softsign(hidden @ self.second + self.second_bias)
        return np.asarray(second @ self.last + self.last_bias[0], dtype=np.float64)


def _softsign(values: Floats) -> Floats:
    return np.asarray(values / (1 + np.abs(values)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class StudentView:
    """What students see of a pipeline on a fabric, regardless of the placement.

    Attributes:
        pipeline, fabric: of all placements.
    """

    pipeline: Pipeline
    fabric: Fabric

    @cached_property
    def _isolated(self) -> npt.NDArray[np.int64]:
        return isolated_slots(self.pipeline, self.fabric)

    @property
    def base_slots(self) -> float:
        """Slots of the slowest unit in isolation."""
        return float(self._isolated.max(initial=1))

    @cached_property
    def constant(self) -> Floats:
        """The features of :data:`CONSTANTS`, [7]."""
        pipeline, base = self.pipeline, self.base_slots
        memory = [unit.kind == UnitKind.MEMORY for unit in pipeline.units]
        values = [
            base,
            max(1, pipeline.ideal_slots) / base,
            own_bound(pipeline, self.fabric).slots / base,
            self._isolated[memory].max(initial=1) / base,
            len(pipeline.units),
            len(pipeline.nets),
            pipeline.stages,
        ]
        return np.asarray(np.log(values), dtype=np.float64)

    def case(self, student: Student) -> StudentCase:
        """What the kernels read."""
        fabric, slots = self.fabric, self.base_slots
        load = fabric.tracks * slots
        links, nets = max(1, len(fabric.grid.link_from)), max(1, len(self.pipeline.nets))
        return StudentCase(
            weight=student.weight,
            bound=float(own_bound(self.pipeline, fabric).slots),
            constant=self.constant,
            term_scale=np.array([nets, links * load, slots, links * load**2, slots, slots, slots], dtype=np.float64),
            load_scale=float(load),
            tracks=float(fabric.tracks),
            hop_slots=float(fabric.hop_slots),
            switch_slots=float(fabric.switch_slots),
            mean=student.mean,
            inverse_scale=1 / student.scale,
            **_network(student),
        )


def _network(student: Student) -> dict[str, Any]:
    arrays: dict[str, Any] = {name: np.ascontiguousarray(getattr(student, name)) for name in LAYERS}
    return arrays | {"last_bias": float(student.last_bias[0])}


def blank() -> Student:
    """A student that has learned nothing, with one unit in each layer; it predicts 0."""
    shapes = {"first": (len(FEATURES), 1), "second": (1, 1)}
    zeros = {name: np.zeros(shapes.get(name, (1,))) for name in LAYERS}
    return Student(1.0, np.zeros(len(FEATURES)), np.ones(len(FEATURES)), **zeros)


def without_student() -> StudentCase:
    """A case of weight 0, which kernels leave alone."""
    layers = blank()
    return StudentCase(
        weight=0.0,
        bound=1.0,
        constant=np.zeros(len(CONSTANTS)),
        term_scale=np.ones(len(RULES)),
        load_scale=1.0,
        tracks=1.0,
        hop_slots=1.0,
        switch_slots=0.0,
        mean=layers.mean,
        inverse_scale=layers.scale,
        **_network(layers),
    )


def room_for(case: StudentCase) -> StudentRoom:
    """Room for what such a student keeps of a state."""
    return StudentRoom(
        sums=np.zeros(kernels.SUMS),
        saved=np.zeros(kernels.SUMS),
        features=np.zeros(len(FEATURES)),
        hidden=np.zeros(len(case.first_bias)),
        second=np.zeros(len(case.second_bias)),
        predicted=np.zeros(1),
        fall=np.zeros(1),
        floor=np.full(1, -np.inf),
    )

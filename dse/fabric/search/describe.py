"""What a student sees of any legal placement, regardless of its routes: what students are taught with."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Pipeline, Placement
from dse.fabric.rules import RULES, RuleWeights
from dse.fabric.search.anneal import case_of, state_with
from dse.fabric.search.move_state import Case
from dse.fabric.search.student import StudentView, blank
from hardware.fabrics import Fabric


@dataclass(frozen=True, eq=False)
class Describer:
    """Features of placements of one pipeline on one fabric.

    Attributes:
        pipeline, fabric: of all placements.
    """

    pipeline: Pipeline
    fabric: Fabric

    @cached_property
    def base_slots(self) -> float:
        """Slots of the slowest unit in isolation, which slots are counted in."""
        return StudentView(self.pipeline, self.fabric).base_slots

    @cached_property
    def _case(self) -> Case:
        return case_of(self.pipeline, self.fabric, RuleWeights(*[1.0] * len(RULES)), "xy", blank())

    def __call__(self, placement: Placement) -> npt.NDArray[np.float64]:
        """The features of a legal placement, [F], in the order of :data:`dse.fabric.search.student.FEATURES`."""
        state, _ = state_with(self.pipeline, self.fabric, placement, self._case)
        return state.room.features.copy()

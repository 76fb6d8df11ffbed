"""Checkpoints of students, with the rules that they correct and the range of graphs that they have seen.

A student lies in a folder of its own in the checkpoint of the cost model that re-ranks what it finds. It is read
without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from dse.fabric.model import Pipeline
from dse.fabric.search.student import CONSTANTS, FEATURES, LAYERS, Student, StudentView
from dse.fabric.setting import Setting, WrittenSetting
from hardware.fabrics import Fabric
from hardware.inputs import fail
from policies.fabric.labelled_by import require_labelled_by
from policies.fabric.student_settings import StudentSettings
from policies.learning.checkpoint import CARD_FILE, Checkpoint, CheckpointFormat, TensorType, chosen_folder

if TYPE_CHECKING:
    from policies.fabric.student import StudentExamples

Floats = npt.NDArray[np.float64]

STUDENT = "student"
"""The student's folder in a checkpoint."""

_MARGIN = 0.05
"""Share of the range of a feature by which a pipeline may lie outside of it."""


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """A student, and where it is of use.

    Attributes:
        student: with its weight in the cost.
        rules: that it corrects, with the schedule of chains.
        low, high: the least and the largest of the features of :data:`~dse.fabric.search.student.CONSTANTS` among the
            graphs that it has learned from, [7] each.
    """

    student: Student
    rules: Setting
    low: Floats
    high: Floats

    @classmethod
    def of(cls, student: Student, rules: Setting, examples: "StudentExamples") -> "TrainedStudent":
        """A student that has learned from these examples."""
        constant = examples.features[:, : len(CONSTANTS)]
        return cls(student, rules, constant.min(axis=0), constant.max(axis=0))

    def out_of_range(self, pipeline: Pipeline, fabric: Fabric) -> tuple[str, ...]:
        """The features of a pipeline that are beyond those of all graphs that it has learned from."""
        constant, margin = StudentView(pipeline, fabric).constant, _MARGIN * (self.high - self.low)
        is_out = (constant < self.low - margin) | (constant > self.high + margin)
        return tuple(name for name, out in zip(CONSTANTS, is_out, strict=True) if out)


def _tensor_types(settings: StudentSettings) -> dict[str, TensorType]:
    features = len(FEATURES)
    width, second = settings.members * settings.width, settings.members * settings.second
    shapes = {
        "mean": (features,),
        "scale": (features,),
        "first": (features, width),
        "first_bias": (width,),
        "second": (width, second),
        "second_bias": (second,),
        "last": (second,),
        "last_bias": (1,),
        "weight": (1,),
        "low": (len(CONSTANTS),),
        "high": (len(CONSTANTS),),
    }
    return {name: TensorType("float64", shape) for name, shape in shapes.items()}


STUDENTS = CheckpointFormat("dse.fabric-student/1", FEATURES, StudentSettings.from_document, _tensor_types)
"""How students are written and read."""


def save_student(
    folder: Path, settings: StudentSettings, trained: TrainedStudent, provenance: Mapping[str, Any]
) -> None:
    """Write a student into the checkpoint in ``folder``.

    ``provenance`` says among others under ``samples`` what their labels depend on
    (:data:`policies.fabric.labelled_by.LABELLED_BY`).
    """
    tensors = {**trained.student.layers, "weight": np.array([trained.student.weight])}
    tensors |= {"low": trained.low, "high": trained.high}
    card = {**provenance, "rules": trained.rules.document()}
    STUDENTS.save(folder / STUDENT, Checkpoint(settings, tensors, card))


def load_student(folder: Path, labelled_by: Mapping[str, Any]) -> TrainedStudent:
    """The student in the checkpoint in ``folder``, or of the best of the run that it holds.

    Raises:
        InputError: there is none, it was taught with other features, or on another fabric, simulator or table of
            operator slots.
    """
    inside = chosen_folder(folder) / STUDENT
    checkpoint = STUDENTS.load(inside)
    require_labelled_by(inside, checkpoint.provenance, labelled_by)
    tensors = dict(checkpoint.tensors)
    low, high, weight = tensors.pop("low"), tensors.pop("high"), float(tensors.pop("weight")[0])
    try:
        rules = WrittenSetting.model_validate(checkpoint.provenance.get("rules")).setting()
        student = Student(weight, **{name: tensors[name] for name in ("mean", "scale", *LAYERS)})
    except (ValidationError, ValueError) as error:
        raise fail(inside / CARD_FILE, "provenance.rules", "", f"is not a valid student: {error}") from error
    return TrainedStudent(student, rules, low, high)

"""Fits that a study pays for once: what models predict in a journal, and members of several models in memory."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dse.results.result import digest
from dse.run.journal import Journal
from policies.fabric.model.checkpoint import COST
from policies.fabric.model.examples import Examples, Learner, LearnerOf, Model

Floats = npt.NDArray[np.float64]
Fitted = TypeVar("Fitted", bound=Model)


def fingerprint(examples: Examples, with_target: bool = True) -> str:
    """The SHA-256 of what a model sees of examples, and of their targets and graphs if it learns from them.

    Features stand for the encodings of the same placements.
    """
    arrays = [examples.features, examples.contention, *((examples.target, examples.graph) if with_target else ())]
    content = hashlib.sha256()
    for array in arrays:
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()


@dataclass(frozen=True)
class Journalled:
    """A learner whose models keep in a journal what they predict.

    A model is fitted when a prediction is requested that the journal lacks.

    Attributes:
        name: of the learner in the journal: another one for every other learner.
        learner: that fits.
        journal: of finished predictions.
    """

    name: str
    learner: Learner
    journal: Journal

    def fit(self, examples: Examples) -> "JournalledModel":
        """The model that the examples teach."""
        return JournalledModel(self, examples)


@dataclass(frozen=True, eq=False)
class JournalledModel:
    """What :class:`Journalled` fits."""

    by: Journalled
    examples: Examples

    @cached_property
    def _model(self) -> Model:
        return self.by.learner.fit(self.examples)

    @cached_property
    def _learned_from(self) -> str:
        return fingerprint(self.examples)

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S].

        Raises:
            InputError: the journal's entry is none that this program wrote.
        """
        journal = self.by.journal
        key = f"{self.by.name}/{self._learned_from}/{fingerprint(examples, with_target=False)}"
        if key not in journal:
            journal.append(key, self._model.predict(examples).tolist())
        try:
            predicted = np.array(journal[key], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise journal.damaged(key, error) from error
        if predicted.shape != (len(examples),):
            raise journal.damaged(key, ValueError(f"there must be {len(examples)} predictions"))
        return predicted


def journalled(learners: Mapping[str, Learner], journal: Journal | None) -> Mapping[str, Learner]:
    """The learners, by name, with a journal; as they are without one.

    Learners of other settings, and those that see other features, have entries of their own (:func:`identity`).
    """
    if journal is None:
        return learners
    return {name: Journalled(f"{name}/{identity(learner)}", learner, journal) for name, learner in learners.items()}


def identity(learner: object) -> str:
    """The digest of what decides what a learner makes of examples: all settings, its members', and the features.

    Of its code there is only the name of its class.
    """
    return digest({"learner": _stated(learner), "features": COST.features})


def _stated(value: Any) -> Any:
    """A learner or a setting as JSON types; fields that do not affect equality, such as a stop signal, are left out.

    Raises:
        TypeError: a field that cannot be stated.
    """
    if is_dataclass(value):
        own = {each.name: _stated(getattr(value, each.name)) for each in fields(value) if each.init and each.compare}
        return {"class": type(value).__name__, **own}
    if isinstance(value, list | tuple):
        return [_stated(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} decides nothing that can be stated")


@dataclass(frozen=True, eq=False)
class Remembered(Generic[Fitted]):
    """A learner that fits the same examples once and then gives the same model again, also as a member of others.

    Attributes:
        learner: that fits.
    """

    learner: LearnerOf[Fitted]
    _models: dict[str, Fitted] = field(default_factory=dict, init=False, repr=False)

    def fit(self, examples: Examples) -> Fitted:
        """The model that the examples teach."""
        key = fingerprint(examples)
        if key not in self._models:
            self._models[key] = self.learner.fit(examples)
        return self._models[key]

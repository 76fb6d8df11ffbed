"""Checkpoints: a network's weights as a file of safetensors, with a card (JSON) that describes them."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dse.run.directory import write_bytes, write_text
from hardware.documents import read_document
from hardware.inputs import fail, shown

WEIGHTS_FILE, CARD_FILE = "weights.safetensors", "card.json"

BEST = "best"
"""The folder of a run's best checkpoint, in its directory."""


class Settings(Protocol):
    """What decides a network and how it learns, in JSON types."""

    def document(self) -> dict[str, Any]:
        """The settings as JSON types."""


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class TensorType:
    """Type and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Checkpoint(Generic[S]):
    """What was learned.

    Attributes:
        settings: under which it was.
        tensors: the network's weights by name.
        provenance: what else the card says: data, seed, versions, scores; JSON types.
    """

    settings: S
    tensors: Mapping[str, npt.NDArray[Any]]
    provenance: Mapping[str, Any]


@dataclass(frozen=True)
class CheckpointFormat(Generic[S]):
    """How a learner's checkpoints are written, and what must hold when they are read.

    Attributes:
        schema: name and version, first in every card.
        features: what the network reads of an input, in order; weights that were learned on others are refused.
        settings_of: makes settings of their document; raises ValueError where they cannot be.
        tensor_types: those of the network that settings describe, by name. The network itself need not be made.
    """

    schema: str
    features: Sequence[str]
    settings_of: Callable[[Mapping[str, Any]], S]
    tensor_types: Callable[[S], Mapping[str, TensorType]]

    def save(self, folder: Path, checkpoint: Checkpoint[S]) -> None:
        """Write weights and card into ``folder``, which is made; the card last, so that where it is, all is."""
        content = save({name: np.ascontiguousarray(tensor) for name, tensor in checkpoint.tensors.items()})
        write_bytes(folder / WEIGHTS_FILE, content)
        card = {
            "schema": self.schema,
            "settings": checkpoint.settings.document(),
            "features": list(self.features),
            "sha256": hashlib.sha256(content).hexdigest(),
            "provenance": dict(checkpoint.provenance),
        }
        write_text(folder / CARD_FILE, json.dumps(card, indent=2) + "\n")

    def annotate(self, folder: Path, provenance: Mapping[str, Any]) -> None:
        """Add to what the card in ``folder`` says, in front of all else, or change it where it stands.

        Raises:
            InputError: as :meth:`load`.
        """
        checkpoint = self.load(folder)
        stated = checkpoint.provenance
        added = {key: value for key, value in provenance.items() if key not in stated}
        self.save(folder, replace(checkpoint, provenance={**added, **stated, **provenance}))

    def load(self, folder: Path) -> Checkpoint[S]:
        """The checkpoint that :meth:`save` wrote.

        Raises:
            InputError: the folder holds none, its card has settings that cannot be, its weights are not those of its
                card, do not fit the network or are not finite, or they were learned on other features than today's.
        """
        card = read_document(folder / CARD_FILE)
        if not isinstance(card, dict) or card.get("schema") != self.schema:
            raise fail(folder / CARD_FILE, "schema", "", f"must be {self.schema}")
        if card.get("features") != list(self.features):
            raise fail(folder / CARD_FILE, "features", "", self._features_rule(card.get("features")))
        try:
            content = (folder / WEIGHTS_FILE).read_bytes()
        except OSError as error:
            raise fail(folder / WEIGHTS_FILE, "", "", f"cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(content).hexdigest() != card.get("sha256"):
            raise fail(folder / WEIGHTS_FILE, "", "", "is not the file that its card describes")
        for key in ("settings", "provenance"):
            if not isinstance(card.get(key), dict):
                raise fail(folder / CARD_FILE, key, card.get(key), "must be an object")
        try:
            settings = self.settings_of(card["settings"])
        except ValueError as error:
            raise fail(folder / CARD_FILE, "settings", "", str(error)) from error
        tensors = _tensors(content, self.tensor_types(settings), folder / WEIGHTS_FILE)
        return Checkpoint(settings, tensors, card["provenance"])

    def _features_rule(self, stated: Any) -> str:
        """What is wrong with the features of a card."""
        names = [name for name in stated if isinstance(name, str)] if isinstance(stated, list) else []
        unknown = [name for name in names if name not in self.features]
        lacking = [name for name in self.features if name not in names]
        parts = [
            f"{word} {', '.join(each)}"
            for word, each in (("has unknown features", unknown), ("lacks", lacking))
            if each
        ]
        differs = f"the card {' and '.join(parts)}" if parts else "the card has them in another order"
        return f"must be the features that this version computes, but {differs}; retrain it"


def chosen_folder(folder: Path) -> Path:
    """``folder`` itself, or the :data:`BEST` of the run that it holds."""
    return folder / BEST if (folder / BEST).is_dir() else folder


def _tensors(content: bytes, types: Mapping[str, TensorType], path: Path) -> dict[str, npt.NDArray[Any]]:
    """The tensors in ``content``, which came from ``path``; they must be of ``types``."""
    try:
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        # The latter two where numpy has no such type or shape.
        raise fail(path, "", "", f"is not a safetensors file for numpy: {shown(str(error))}") from error
    for name in sorted(tensors.keys() | types.keys()):
        held = str(TensorType(str(tensors[name].dtype), tensors[name].shape)) if name in tensors else "missing"
        needed = str(types[name]) if name in types else "none"
        if held != needed:
            rule = f"must be {needed}, as in this version's network with the card's settings; retrain it"
            raise fail(path, shown(name), held, rule)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise fail(path, name, "", "must be finite")
    return tensors

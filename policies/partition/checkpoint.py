"""Weights of the policy as a file of safetensors, with a card (JSON) that says what they are."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dse.run.directory import write_bytes, write_text
from hardware.inputs import fail, read_document, shown
from policies.partition.features import FEATURES
from policies.partition.network import PartitionNetwork
from policies.partition.settings import LearningSettings

WEIGHTS_FILE, CARD_FILE = "weights.safetensors", "card.json"

_SCHEMA = "dse.partition-policy/1"


@dataclass(frozen=True)
class Checkpoint:
    """What was learned.

    Attributes:
        settings: under which it was.
        tensors: the module's weights by name.
        told: what else the card says: data, seed, revision, scores.
    """

    settings: LearningSettings
    tensors: Mapping[str, npt.NDArray[Any]]
    told: Mapping[str, Any]

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """The weights as a module takes them."""
        return dict(self.tensors)

    def network_settings(self, settings: LearningSettings) -> LearningSettings:
        """``settings`` with the network that these weights belong to."""
        own = self.settings
        return replace(
            settings,
            layers=own.layers,
            width=own.width,
            attention=own.attention,
            heads=own.heads,
            head=own.head,
            prior=own.prior,
            anchor=own.anchor,
            passes=own.passes,
        )


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write weights and card into ``folder``, which is made; the card last, so that where it is, all is."""
    content = save({name: np.ascontiguousarray(tensor) for name, tensor in checkpoint.tensors.items()})
    write_bytes(folder / WEIGHTS_FILE, content)
    card = {
        "schema": _SCHEMA,
        "settings": checkpoint.settings.document(),
        "features": list(FEATURES),
        "sha256": hashlib.sha256(content).hexdigest(),
        "told": dict(checkpoint.told),
    }
    write_text(folder / CARD_FILE, json.dumps(card, indent=2) + "\n")


def load_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint that :func:`save_checkpoint` wrote.

    Raises:
        InputError: the folder holds none, its card has settings that cannot be, its weights are not those of its card,
            do not fit the network or are not finite, or they were learned on other features than today's.
    """
    card = read_document(folder / CARD_FILE)
    if not isinstance(card, dict) or card.get("schema") != _SCHEMA:
        raise fail(folder / CARD_FILE, "schema", "", f"must be {_SCHEMA}")
    if card.get("features") != list(FEATURES):
        raise fail(folder / CARD_FILE, "features", "", "must be those that this version computes")
    try:
        content = (folder / WEIGHTS_FILE).read_bytes()
    except OSError as error:
        raise fail(folder / WEIGHTS_FILE, "", "", f"cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != card.get("sha256"):
        raise fail(folder / WEIGHTS_FILE, "", "", "is not the file that the card beside it describes")
    for key in ("settings", "told"):
        if not isinstance(card.get(key), dict):
            raise fail(folder / CARD_FILE, key, card.get(key), "must be an object")
    try:
        settings = LearningSettings.from_document(card["settings"])
    except ValueError as error:
        raise fail(folder / CARD_FILE, "settings", "", str(error)) from error
    return Checkpoint(settings, _weights(content, settings, folder / WEIGHTS_FILE), card["told"])


def _weights(content: bytes, settings: LearningSettings, path: Path) -> dict[str, npt.NDArray[Any]]:
    """The tensors in ``content``, which came from ``path``, for the network of ``settings``, which is not made."""
    try:
        weights = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        # The latter two where numpy has no such type or shape.
        raise fail(path, "", "", f"is no file of safetensors for numpy: {shown(str(error))}") from error
    with torch.device("meta"):
        network = PartitionNetwork(settings)
    found = {name: _form(weight.dtype, weight.shape) for name, weight in weights.items()}
    wanted = {f"network.{name}": _form("float32", weight.shape) for name, weight in network.state_dict().items()}
    for name in sorted(found.keys() | wanted.keys()):
        form, due = found.get(name, "missing"), wanted.get(name, "none")
        if form != due:
            rule = f"must be {due}: it is not the weights of this version's network with the card's settings"
            raise fail(path, shown(name), form, f"{rule}; train it anew")
    for name, weight in weights.items():
        if not np.isfinite(weight).all():
            raise fail(path, name, "", "must be finite throughout")
    return weights


def _form(dtype: object, shape: Sequence[int]) -> str:
    """Type and shape of a tensor, as ``float32 [64, 26]``."""
    return f"{dtype} {list(shape)}"

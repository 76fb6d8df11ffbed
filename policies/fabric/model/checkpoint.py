"""Checkpoints of the learned cost model, and the fabrics that they hold for."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from hardware.inputs import fail
from policies.fabric.labelled_by import require_labelled_by
from policies.fabric.model.contention import CONTENTION
from policies.fabric.model.encoding import LINK_FEATURES, NET_FEATURES, ROUTE_FEATURES, UNIT_FEATURES
from policies.fabric.model.features import FEATURES
from policies.fabric.model.network import GraphNetwork
from policies.fabric.model.perceptrons import PerceptronsLearner
from policies.fabric.model.settings import CostSettings
from policies.fabric.model.stack import MEMBERS
from policies.fabric.model.trees import Trees, TreesLearner, faulty_node
from policies.learning.checkpoint import WEIGHTS_FILE, Checkpoint, CheckpointFormat, TensorType, chosen_folder


def _tensor_types(settings: CostSettings) -> dict[str, TensorType]:
    """Those of all networks and of the stack; the networks are not made."""
    with torch.device("meta"):
        state = GraphNetwork(settings).state_dict()
    networks = {
        f"network{number}.{name}": TensorType("float32", tuple(tensor.shape))
        for number in range(settings.members)
        for name, tensor in state.items()
    }
    grown = TreesLearner()
    shape = (grown.iterations, grown.nodes)
    types = {"feature": "int32", "threshold": "float32", "left": "int32", "right": "int32", "value": "float64"}
    trees = {f"trees.{name}": TensorType(kind, shape) for name, kind in types.items()}
    described = len(FEATURES) + len(CONTENTION)
    standard = {"mean": described, "scale": described, "centre": 1, "spread": 1}
    perceptrons = {f"perceptrons.{name}": TensorType("float64", (size,)) for name, size in standard.items()}
    layers = PerceptronsLearner().shapes(described)
    perceptrons |= {f"perceptrons.{name}": TensorType("float32", shape) for name, shape in layers.items()}
    one = {"trees.start": TensorType("float64", (1,)), "stack.weights": TensorType("float64", (len(MEMBERS),))}
    return networks | trees | perceptrons | one


def _encoded() -> list[str]:
    kinds = {"unit": UNIT_FEATURES, "net": NET_FEATURES, "route": ROUTE_FEATURES, "link": LINK_FEATURES}
    return [f"{kind}.{name}" for kind, names in kinds.items() for name in names]


CostCheckpoint = Checkpoint[CostSettings]

COST = CheckpointFormat(
    "dse.fabric-cost/4", (*FEATURES, *CONTENTION, *_encoded()), CostSettings.from_document, _tensor_types
)
"""How the cost model is written and read."""


def load_for(folder: Path, labelled_by: Mapping[str, Any]) -> CostCheckpoint:
    """The checkpoint in ``folder``, or the best of the run that it holds, for labels of this provenance.

    Raises:
        InputError: there is none, it was learned on other features, or on another fabric, simulator or table of
            operator slots, or its trees lead nowhere.
    """
    checkpoint = COST.load(chosen_folder(folder))
    _require_trees(chosen_folder(folder), checkpoint)
    require_labelled_by(chosen_folder(folder), checkpoint.provenance, labelled_by)
    return checkpoint


def _require_trees(folder: Path, checkpoint: CostCheckpoint) -> None:
    trees = {each.name: checkpoint.tensors[f"trees.{each.name}"] for each in fields(Trees)}
    fault = faulty_node(trees, len(FEATURES) + len(CONTENTION))
    if fault is not None:
        name, value, rule = fault
        raise fail(folder / WEIGHTS_FILE, f"trees.{name}", value, rule)

"""Checkpoints of the policy."""

import torch

from policies.learning.checkpoint import Checkpoint, CheckpointFormat, TensorType
from policies.partition.features import FEATURES
from policies.partition.network import PartitionNetwork
from policies.partition.settings import LearningSettings


def _tensor_types(settings: LearningSettings) -> dict[str, TensorType]:
    """Those of the module's weights. The network, which may have gigabytes of them, is not made."""
    with torch.device("meta"):
        state = PartitionNetwork(settings).state_dict()
    return {f"network.{name}": TensorType("float32", tuple(tensor.shape)) for name, tensor in state.items()}


PolicyCheckpoint = Checkpoint[LearningSettings]

POLICY = CheckpointFormat("dse.partition-policy/2", FEATURES, LearningSettings.from_document, _tensor_types)

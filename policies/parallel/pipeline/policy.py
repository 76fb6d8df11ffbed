"""The policy of online inference: settings, checkpoints, and its use on a problem."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

import numpy as np
import torch

from dse.parallel.pipeline.problem import DeviceCutting, PipelineProblem
from policies.learning.checkpoint import Checkpoint, CheckpointFormat, TensorType
from policies.parallel.networks import PlaceNetwork, q_values
from policies.parallel.pipeline.contenders import drawn_plans, even
from policies.parallel.pipeline.generated import FAMILIES, OF_PAPER, Family
from policies.parallel.pipeline.improvement import improved
from policies.parallel.pipeline.inference import FEATURES, LAYOUT, Coarse, InferenceEpisodes, coarse
from policies.parallel.pipeline.machines import CONFIGS, Machine
from policies.parallel.pipeline.online import MAX_STAGES, STARTS, Best
from policies.parallel.settings import Layout, QSettings

INTERACTIONS = 50
"""With one environment (paper, 3.5.3)."""


@dataclass(frozen=True)
class PolicySettings(QSettings):
    """What a policy is, how it learns, and what for.

    Attributes:
        machines: on which it was trained.
        cutting: of devices.
        families: of profiles that it learned from.
    """

    layout: Layout = LAYOUT
    hidden: int = 32
    lookahead: int = 2 * (MAX_STAGES - 1)
    machines: tuple[Machine, ...] = CONFIGS
    cutting: DeviceCutting = "near"
    families: tuple[Family, ...] = OF_PAPER

    def document(self) -> dict[str, Any]:
        """The settings as JSON types."""
        document = super().document() | {"machines": [asdict(machine) for machine in self.machines]}
        del document["families"]  # which earlier policies do not have
        return document if self.families == OF_PAPER else document | {"families": list(self.families)}

    @property
    def learning(self) -> QSettings:
        """Network and learning alone."""
        return QSettings(**{each.name: getattr(self, each.name) for each in fields(QSettings)})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "PolicySettings":
        """The settings that :meth:`document` wrote.

        Raises:
            ValueError: they are not of this version.
        """
        given = dict(document)
        machines, cutting, families = (given.pop(key, None) for key in ("machines", "cutting", "families"))
        families = list(OF_PAPER) if families is None else families
        learning = QSettings.from_document(given)
        if learning.layout != LAYOUT:
            raise ValueError("layout: must be that of this version")
        if cutting not in get_args(DeviceCutting) or not isinstance(machines, list):
            raise ValueError("must have machines and cutting")
        if not isinstance(families, list) or not families or {*families} - {*FAMILIES}:
            raise ValueError(f"families: must be some of {', '.join(FAMILIES)}")
        try:
            known = tuple(Machine(**each) for each in machines)
        except TypeError as error:
            raise ValueError(f"machines: must have the keys of this version: {error}") from error
        own = {each.name: getattr(learning, each.name) for each in fields(QSettings)}
        return cls(**own, machines=known, cutting=cutting, families=tuple(families))


def _tensor_types(settings: PolicySettings) -> dict[str, TensorType]:
    with torch.device("meta"):
        state = PlaceNetwork(settings).state_dict()
    return {f"network.{name}": TensorType("float32", tuple(tensor.shape)) for name, tensor in state.items()}


PolicyCheckpoint = Checkpoint[PolicySettings]

PIPELINE_POLICY = CheckpointFormat("dse.pipeline-policy/1", FEATURES, PolicySettings.from_document, _tensor_types)


class Policy:
    """The Q-network of a checkpoint."""

    def __init__(self, checkpoint: PolicyCheckpoint) -> None:
        self.settings = checkpoint.settings
        self._network = PlaceNetwork(checkpoint.settings)
        weights = {
            name.removeprefix("network."): torch.from_numpy(np.array(tensor))
            for name, tensor in checkpoint.tensors.items()
        }
        self._network.load_state_dict(weights)

    def machine_of(self, problem: PipelineProblem) -> Machine | None:
        """That of the problem, if the policy was trained on it."""
        return next((each for each in self.settings.machines if each.runs(problem)), None)

    def answer(self, problem: PipelineProblem, cutting: DeviceCutting, seed: int) -> Best:
        """The best of 50 plans of the policy, as many random ones and the plan of equal computing, all improved.

        The shortest plans of each are improved, not the shortest of all: those of the policy are alike and often lead
        to the same plan. So the answer is never longer than that of :func:`even`.
        """
        seen, best = self.plans(problem, cutting, seed)
        return improved(seen, [best, drawn_plans(seen, INTERACTIONS, seed)], STARTS).with_other(even(seen))

    def plans(
        self,
        problem: PipelineProblem,
        cutting: DeviceCutting,
        seed: int,
        interactions: int = INTERACTIONS,
    ) -> tuple[Coarse, Best]:
        """The best of so many plans: the policy's own, and others with random actions among it.

        Args:
            problem: what is cut.
            cutting: which device cuts are allowed.
            seed: of the random actions.
            interactions: plans that are made.
        """
        machine = self.machine_of(problem)
        seen = coarse(problem, cutting, None if machine is None else machine.lines)
        best, draw = Best(), np.random.default_rng(seed)
        episodes = InferenceEpisodes([seen] * interactions, [best] * interactions)
        running = np.ones(interactions, dtype=bool)
        # The first plan is the policy's own.
        epsilon = np.where(np.arange(interactions) > 0, self.settings.last_epsilon, 0.0)
        while running.any():
            observed = episodes.observations()
            masks = LAYOUT.parts(observed)[2] > 0
            if not masks.any():
                return seen, best
            with torch.no_grad():
                values = q_values(self._network, self.settings, torch.from_numpy(observed))
            actions = values.argmax(1).numpy()
            is_random = draw.random(interactions) < epsilon
            actions[is_random] = np.where(masks, draw.random(masks.shape), -1.0).argmax(1)[is_random]
            _, ended = episodes.step(actions)
            running = ~ended
        return seen, best

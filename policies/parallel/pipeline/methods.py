"""The learned methods of ``dse parallel --strategy pipeline`` by name, for the roof to add to those of the engine.

Nothing heavy is imported before a method runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline.exact import Answer
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.methods import PipelineContext, PipelineMethod
from dse.parallel.pipeline.problem import DeviceCutting
from hardware.chips import chip
from hardware.documents import read_document
from hardware.inputs import InputError, fail
from policies.parallel.extra import ask_for_extra as ask_for_extra

if TYPE_CHECKING:
    from policies.parallel.pipeline.online import Best

SHIPPED = Path(__file__).parent / "shipped"
"""The policy in the package."""

_COMMAND = "dse parallel"


@dataclass(frozen=True)
class OnlineTraining:
    """A Q-network learns on the problem itself (paper, 3.4), in 10,000 steps of the environment."""

    def __call__(self, context: PipelineContext) -> Answer:
        """The shortest plan of all episodes.

        Raises:
            InputError: the extra ``learn`` is not installed.
        """
        ask_for_extra(_COMMAND, "--method", "dqn")
        from policies.parallel.pipeline.search import trained

        return answer_of(trained(context), context)


@dataclass(frozen=True)
class OnlineInference:
    """A policy that was pretrained on generated problems (paper, 3.5).

    Attributes:
        folder: of a checkpoint or of a pretraining run; None: the policy in the package.
    """

    folder: Path | None = None

    def __call__(self, context: PipelineContext) -> Answer:
        """The best of 50 plans of the policy and of the plan of equal computing, improved cut by cut.

        Raises:
            InputError: the extra ``learn`` is not installed, the folder holds no checkpoint, or the policy was trained
                for other machines or to cut their devices in another way.
        """
        ask_for_extra(_COMMAND, "--method", "inference")
        from policies.learning.checkpoint import chosen_folder
        from policies.parallel.pipeline.policy import PIPELINE_POLICY, Policy

        policy, problem = Policy(PIPELINE_POLICY.load(chosen_folder(self.folder or SHIPPED))), context.problem
        if policy.machine_of(problem) is None:
            known = "; ".join(map(str, policy.settings.machines))
            asked = f"{problem.devices} devices, {problem.stages} stages, {problem.microbatches} microbatches"
            raise self._refusal(f"was not trained for {asked} on this network, only for: {known}")
        cutting = policy.settings.cutting
        if context.device_cutting != cutting:
            rule = f"was trained for --device-cuts {cutting}, not {context.device_cutting}"
            raise self._refusal(rule)
        return answer_of(policy.answer(problem, context.device_cutting, context.seed), context)

    def _refusal(self, rule: str) -> InputError:
        """Of a question that the policy was not trained for."""
        if self.folder is None:
            return fail(_COMMAND, "--method", "inference", f"the policy in the package {rule}")
        return fail(_COMMAND, "--checkpoint", self.folder.name, rule)


def answer_of(best: "Best", context: PipelineContext) -> Answer:
    """The plan, priced by the definition; nothing where it has faults, which a rounding of its bytes can be."""
    if best.plan is None or faults(context.problem, best.plan):
        return Answer(None, float("inf"), 0.0, best.evaluations)
    return Answer(best.plan, length(context.problem, best.plan).length_s, 0.0, best.evaluations)


def weights_digest(folder: str | None) -> str:
    """What the card of a policy says of its weights; of the one in the package if None.

    Raises:
        InputError: there is no card, or the extra ``learn`` is not installed.
    """
    return str(_card(folder).get("sha256", ""))


def own_cutting(options: ParallelOptions) -> DeviceCutting | None:
    """How the policy that the options name was trained to cut their devices.

    Returns:
        None where its card says nothing of so many devices on this network in so many stages: the policy refuses them.

    Raises:
        InputError: as of :func:`weights_digest`.
    """
    settings = _card(options.checkpoint).get("settings")
    if not isinstance(settings, dict):
        return None
    machines = settings.get("machines")
    name = options.network or chip(options.accelerator).link
    for each in machines if isinstance(machines, list) else ():
        is_known = isinstance(each, dict) and (name, options.mesh) == (each.get("network"), str(each.get("devices")))
        if is_known and options.stages in (None, each.get("stages")):
            cutting: DeviceCutting | None = settings.get("cutting")
            return cutting if cutting in get_args(DeviceCutting) else None
    return None


def _card(folder: str | None) -> dict[str, Any]:
    """What a policy says of itself; empty where it is not an object."""
    ask_for_extra(_COMMAND, "--method", "inference")
    from policies.learning.checkpoint import CARD_FILE, chosen_folder

    card = read_document(chosen_folder(SHIPPED if folder is None else Path(folder)) / CARD_FILE)
    return card if isinstance(card, dict) else {}


def learned_methods(checkpoint: Path | None = None) -> Mapping[str, PipelineMethod]:
    """The learned methods by name; ``inference`` with the policy in ``checkpoint``, or the one in the package."""
    return MappingProxyType({"dqn": OnlineTraining(), "inference": OnlineInference(checkpoint)})

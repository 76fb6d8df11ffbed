"""The learned methods of ``dse parallel --strategy pipeline`` by name, for the roof to add to those of the engine.

Nothing heavy is imported before a method runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dse.parallel.pipeline.exact import Answer
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.methods import PipelineContext, PipelineMethod
from hardware.documents import read_document
from hardware.inputs import fail
from policies.parallel.extra import ask_for_extra as ask_for_extra

if TYPE_CHECKING:
    from policies.parallel.pipeline.online import Best

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
        folder: of a checkpoint or of a pretraining run; None: there is none, and the method refuses.
    """

    folder: Path | None = None

    def __call__(self, context: PipelineContext) -> Answer:
        """The best of 50 plans, improved at the instructions around its cuts.

        Raises:
            InputError: the extra ``learn`` is not installed, there is no checkpoint, or it is of another machine.
        """
        ask_for_extra(_COMMAND, "--method", "inference")
        from policies.learning.checkpoint import chosen_folder
        from policies.parallel.pipeline.inference import refined
        from policies.parallel.pipeline.policy import PIPELINE_POLICY, Policy

        folder = chosen_folder(_given(self.folder))
        policy, problem = Policy(PIPELINE_POLICY.load(folder)), context.problem
        if policy.machine_of(problem) is None:
            known = "; ".join(map(str, policy.settings.machines))
            asked = f"{problem.devices} devices, {problem.stages} stages, {problem.microbatches} microbatches"
            raise fail(_COMMAND, "--checkpoint", folder.name, f"was trained for another machine than {asked}: {known}")
        seen, best = policy.plans(problem, context.device_cutting, context.seed)
        refined(seen, best)
        return answer_of(best, context)


def answer_of(best: "Best", context: PipelineContext) -> Answer:
    """The plan, priced by the definition; nothing where it has faults, which a rounding of its bytes can be."""
    if best.plan is None or faults(context.problem, best.plan):
        return Answer(None, float("inf"), 0.0, best.evaluations)
    return Answer(best.plan, length(context.problem, best.plan).length_s, 0.0, best.evaluations)


def _given(folder: Path | None) -> Path:
    if folder is None:
        rule = "needs --checkpoint DIR, a policy as made by `dse pretrain pipeline --out DIR`"
        raise fail(_COMMAND, "--method", "inference", rule)
    return folder


def weights_digest(folder: str | None) -> str:
    """What the card of a policy says of its weights.

    Raises:
        InputError: there is none, or the extra ``learn`` is not installed.
    """
    ask_for_extra(_COMMAND, "--method", "inference")
    from policies.learning.checkpoint import CARD_FILE, chosen_folder

    card = read_document(chosen_folder(_given(None if folder is None else Path(folder))) / CARD_FILE)
    return str(card.get("sha256")) if isinstance(card, dict) else ""


def learned_methods(checkpoint: Path | None = None) -> Mapping[str, PipelineMethod]:
    """The learned methods by name; ``inference`` with the policy in ``checkpoint``."""
    return MappingProxyType({"dqn": OnlineTraining(), "inference": OnlineInference(checkpoint)})

"""The learned methods of ``dse partition`` by name, for the roof to add to those of the engine.

Nothing heavy is imported before a method runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from dse.importer.libraries import install
from dse.partition.methods import Method
from dse.partition.search.context import SearchContext, SearchResult
from hardware.documents import read_document
from hardware.inputs import fail

REFINE, PLAIN = (Path(__file__).parent / "shipped" / name for name in ("refine", "plain"))
"""The checkpoints that come along: of the policy that refines, and without a prior.

``rl`` begins with neither: a policy that refines and has learned nothing before is as good within what seeds differ
(docs/method/learning.md).
"""

_NEEDED = ("torch", "safetensors", "gymnasium")
_EXTRA = f"the learned partitioner needs the extra learn: {install('learn')}"


@dataclass(frozen=True)
class ReinforcementLearning:
    """The learned policy, fine-tuned on the problem.

    Attributes:
        folder: of a checkpoint, or of a pretraining run; None: the policy refines, and has learned nothing yet.
    """

    folder: Path | None = None

    def __call__(self, context: SearchContext) -> SearchResult:
        """The best of ``context.samples`` candidates.

        Raises:
            InputError: the extra ``learn`` is not installed, or the folder holds no checkpoint.
        """
        ask_for_extra("dse partition", "--method", "rl")
        from policies.learning.checkpoint import chosen_folder
        from policies.partition.checkpoint import POLICY
        from policies.partition.search import learn
        from policies.partition.settings import REFINING

        if self.folder is None:
            return learn(context, REFINING)
        checkpoint = POLICY.load(chosen_folder(self.folder))
        return learn(context, checkpoint.settings.on_one_graph(), checkpoint)


def learned_methods(checkpoint: Path | None = None) -> Mapping[str, Method]:
    """The learned methods by name, beginning with the weights in ``checkpoint``."""
    return MappingProxyType({"rl": ReinforcementLearning(checkpoint)})


def weights_digest(folder: str) -> str:
    """What the card of the checkpoint in ``folder``, or of the run that it holds, says of its weights.

    Raises:
        InputError: there is none, or the extra ``learn`` is not installed.
    """
    ask_for_extra("dse partition", "--checkpoint", folder)
    from policies.learning.checkpoint import CARD_FILE, chosen_folder

    card = read_document(chosen_folder(Path(folder)) / CARD_FILE)
    return str(card.get("sha256")) if isinstance(card, dict) else ""


def is_installed() -> bool:
    """Whether what the extra ``learn`` brings is there."""
    return all(find_spec(name) is not None for name in _NEEDED)


def ask_for_extra(command: str, key: str, value: str) -> None:
    """Refuse to run without the extra ``learn``.

    Raises:
        InputError: it is not installed; names the command and its option.
    """
    if not is_installed():
        raise fail(command, key, value, _EXTRA)

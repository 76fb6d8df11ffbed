"""The learned methods as the study compares them (paper, Tables 2 and 3): each with what it begins with.

Nothing heavy is imported before a method runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dse.partition.methods import Method
from dse.partition.search.context import Found, SearchContext
from policies.partition.methods import PLAIN


@dataclass(frozen=True)
class Contender:
    """One way to use the policy.

    Attributes:
        form: of :data:`policies.partition.settings.FORMS`.
        checkpoint: the weights it begins with; None: none, it learns from scratch.
        tune: whether it goes on learning on the graph.
    """

    form: str
    checkpoint: Path | None = None
    tune: bool = True

    def __call__(self, context: SearchContext) -> Found:
        """The best of ``context.samples`` candidates."""
        from policies.partition.pretraining_run import chosen_checkpoint
        from policies.partition.search import learn
        from policies.partition.settings import FORMS, REFINING

        weights = None if self.checkpoint is None else chosen_checkpoint(self.checkpoint)
        if self.form == "refine":
            return learn(context, REFINING, weights, tune=self.tune)
        return learn(context, FORMS[self.form], weights, tune=self.tune)


def contenders(plain: Path = PLAIN) -> Mapping[str, Method]:
    """By name: the paper's three without a prior, the diagonal prior, and ours, which changes the best partition known.

    ``bare prior`` is what a network that has learned nothing draws; for ``refining`` that is the method ``refine``.

    Args:
        plain: a checkpoint that was trained without a prior.
    """
    return {
        "rl": Contender("plain"),
        "rl zero-shot": Contender("plain", plain, tune=False),
        "rl fine-tuned": Contender("plain", plain),
        "bare prior": Contender("prior", tune=False),
        "prior + rl": Contender("prior"),
        "refine + rl": Contender("refine"),
    }

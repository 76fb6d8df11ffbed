"""The learned methods as the study compares them (paper, Tables 2 and 3), and what becomes of one without its parts.

Nothing heavy is imported before a method runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dse.partition.search.context import SearchContext, SearchResult
from policies.partition.methods import PLAIN, REFINE, weights_digest
from policies.partition.settings import FORMS, REFINING, LearningSettings


@dataclass(frozen=True)
class Contender:
    """One way to use the policy.

    Attributes:
        settings: of network and learning.
        checkpoint: the weights it begins with; None: none, it learns from scratch.
        tune: whether it continues to learn on the graph.
    """

    settings: LearningSettings
    checkpoint: Path | None = None
    tune: bool = True

    def __call__(self, context: SearchContext) -> SearchResult:
        """The best of ``context.samples`` candidates."""
        from policies.learning.checkpoint import chosen_folder
        from policies.partition.checkpoint import POLICY
        from policies.partition.search import learn

        weights = None if self.checkpoint is None else POLICY.load(chosen_folder(self.checkpoint))
        return learn(context, self.settings, weights, tune=self.tune)


def contenders() -> Mapping[str, Contender]:
    """By name, which says the form: without a prior the paper's three uses, the diagonal prior, and ours, which changes
    the best partition known.

    ``bare prior`` is what a network that has learned nothing draws; for refining that is the method ``refine``.
    """
    return {
        "plain rl": Contender(FORMS["plain"]),
        "plain rl zero-shot": Contender(FORMS["plain"], PLAIN, tune=False),
        "plain rl fine-tuned": Contender(FORMS["plain"], PLAIN),
        "bare prior": Contender(FORMS["prior"], tune=False),
        "prior + rl": Contender(FORMS["prior"]),
        "refine + rl": Contender(REFINING),
        "refine zero-shot": Contender(REFINING, REFINE, tune=False),
        "refine fine-tuned": Contender(REFINING, REFINE),
    }


def identity() -> Mapping[str, Any]:
    """What decides what contenders and ablations find, as JSON types: the weights that come along, and all settings."""
    variants = {name: method.settings for name, method in {**contenders(), **ablations()}.items()}
    return {
        "weights": [weights_digest(str(folder)) for folder in (PLAIN, REFINE)],
        "settings": {name: settings.document() for name, settings in variants.items()},
    }


def ablations() -> Mapping[str, Contender]:
    """By name: the policy that corrects the diagonal prior and learns from scratch, with one thing changed each.

    Without imitation PPO has its whole weight, and the last is the paper's form, where everything differs.
    """
    whole = FORMS["prior"]
    changed = {
        "no solver": replace(whole, solver="none"),
        "SAMPLE, not FIX": replace(whole, solver="sample"),
        "no prior": replace(whole, prior="none", warmup=0),
        "joint ratio": replace(whole, ratio="joint"),
        "two passes": replace(whole, passes=2),
        "credit as drawn": replace(whole, credit="sampled"),
        "no imitation": replace(whole, imitation_weight=0.0, policy_weight=1.0),
        "independent draws": replace(whole, correlation=0.0),
        "as in the paper": FORMS["paper"],
    }
    variants = {"prior + rl": Contender(whole), "not learning": Contender(whole, tune=False)}
    return variants | {name: Contender(settings) for name, settings in changed.items()}

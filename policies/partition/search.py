"""Partitioning one graph with the learned policy: from scratch, zero-shot, or fine-tuned from a checkpoint.

Runner and learner are those of the RLlib algorithm, put to work in this process, without Ray.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.refining import starts_of
from policies.partition.checkpoint import PolicyCheckpoint
from policies.partition.graph_store import GraphStore, StoredGraph
from policies.partition.runner import COST, REPAIRED
from policies.partition.settings import LearningSettings
from policies.partition.training import PartitionTraining

_PHASE = "partitions evaluated"


def learn(
    context: SearchContext, settings: LearningSettings, checkpoint: PolicyCheckpoint | None = None, *, tune: bool = True
) -> SearchResult:
    """The best of exactly ``context.samples`` candidates of a policy that learns from them; fewer if it is stopped.

    Args:
        context: problem, evaluator, seed, samples, progress, stop; its first start partition is the prior ``dp``'s.
        settings: of the learning; where there is a checkpoint, the network is the checkpoint's.
        checkpoint: weights to begin with; None: from scratch.
        tune: continue to learn; otherwise candidates are only drawn (zero-shot), the first of them the likeliest.
    """
    settings = replace(settings, anchor_visits=0)
    if checkpoint is not None:
        settings = settings.with_network_of(checkpoint.settings)
    tuner = training_of(context, settings, checkpoint)
    best = _first_result(context, tuner) if settings.anchor == "best" else SearchResult()
    knows_nothing = checkpoint is None and settings.prior == "none" and settings.anchor == "prior"
    uniform = settings.warmup * settings.rollouts if knows_nothing and settings.solver != "none" else 0
    unlearned: list[SingleAgentEpisode] = []
    while best.evaluations < context.samples and context.stop() is None:
        count = min(settings.rollouts, context.samples - best.evaluations)
        if best.evaluations == 0 and (checkpoint is not None or settings.prior != "none"):
            # What the policy thinks best, before anything is drawn; a network that knows nothing thinks nothing.
            episodes = tuner.candidates(1, explore=False)
            if count > 1:
                episodes += tuner.candidates(count - 1)
        else:
            episodes = tuner.candidates(count, random=best.evaluations < uniform)
        best = best.with_candidates(*_candidates(episodes))
        context.progress(_PHASE, best.evaluations, context.samples)
        unlearned += episodes
        if tune and len(unlearned) >= settings.rollouts * settings.graphs and best.evaluations < context.samples:
            tuner.update(unlearned)
            unlearned = []
    return best


def _first_result(context: SearchContext, tuner: PartitionTraining) -> SearchResult:
    """The prior as it is, and what simple methods find: the best of them is what the policy corrects."""
    first = np.unique(np.concatenate([starts_of(context), tuner.runner.anchor(0).chips[None]]), axis=0)
    first = first[: context.samples]
    costs = context.evaluator.costs(first)
    tuner.begin(first, costs)
    return SearchResult().with_candidates(first, costs)


def training_of(
    context: SearchContext, settings: LearningSettings, checkpoint: PolicyCheckpoint | None = None
) -> PartitionTraining:
    """Rollouts and learning on the graph of ``context`` alone."""
    graph = StoredGraph(context.problem, context.evaluator)
    return PartitionTraining(GraphStore([graph]), settings, context.seed, checkpoint)


def _candidates(episodes: list[SingleAgentEpisode]) -> tuple[Any, Any]:
    """(partitions [B, N], costs [B]) of rollouts."""
    chips = np.stack([episode.get_extra_model_outputs(REPAIRED, -1) for episode in episodes])
    return chips, np.array([episode.get_extra_model_outputs(COST, -1) for episode in episodes])

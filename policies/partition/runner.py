"""Rollouts: the network draws candidates of a graph, the constraint solver repairs them, the evaluator prices them.

A runner of groups, because one network pass, one call of the solver and one of the evaluator serve
all rollouts of a graph; there is no environment to step through.
"""

from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import metrics as names

from dse.partition.check import violations
from dse.partition.constraints.sampler import seeds_of
from dse.partition.problem import Chips, Floats, Ints, Words
from dse.partition.search.proposals import Float32s, mixed_orders
from hardware.packages import MAX_CHIPS
from policies.learning.rllib.runner import GroupOrder, GroupRunner
from policies.partition.advantage import advantages
from policies.partition.anchor import Anchor
from policies.partition.distribution import ChipDistribution
from policies.partition.graph_store import GraphStore, StoredGraph
from policies.partition.rl_module import (
    ACTION_SPACE,
    BUSY,
    DISTRIBUTIONS,
    GRAPH,
    OBSERVATION_SPACE,
    PASS,
    PREVIOUS,
    ROW,
    SEED,
    PartitionModule,
)
from policies.partition.settings import LearningSettings

COST, ADVANTAGE, REPAIRED = "cost_s", "advantage", "repaired"

_BEST, _ANCHORS = "best_cost_s", "anchors"


@dataclass(frozen=True)
class Group:
    """The rollouts of one graph that were made together.

    Attributes:
        number: of the graph in the store.
        seeds: of each rollout, [R].
        anchor: what the first pass sees, [N]; zeros where it sees nothing.
        next_anchor: what the next group of this graph corrects; None where that is always the prior.
        busy: of the anchor, chips and links over the busiest, [2, max chips]; zeros where nobody has measured it.
        anchor_reward: of that; 0 where it is not known.
        drawn: what each pass drew, [T, R, N].
        distributions: of each pass, [D, N, C]; the rollouts' places in them, [R].
        repaired: the valid partitions, [R, N]; the drawn ones where no solver is used.
        costs: seconds, [R]; infinite for what cannot run.
        rewards: throughput over that of the simple bound, [R].
    """

    number: int
    seeds: Words
    anchor: Chips
    next_anchor: Anchor | None
    busy: Float32s
    anchor_reward: float
    drawn: Ints
    distributions: tuple[tuple[ChipDistribution, torch.Tensor], ...]
    repaired: Chips
    costs: Floats
    rewards: Floats


@dataclass(frozen=True)
class _Summary:
    """Of a group: graph, least cost, mean reward, share of rollouts that cannot run, and of operators moved."""

    number: int
    best_cost_s: float
    reward: float
    infeasible: float
    moved: float


def _summary(group: Group) -> _Summary:
    return _Summary(
        group.number,
        float(group.costs.min()),
        float(group.rewards.mean()),
        float(np.isinf(group.costs).mean()),
        float((group.repaired != group.drawn[-1]).mean()),
    )


class PartitionRunner(GroupRunner):
    """Makes groups of rollouts of the graphs.

    ``config.env_config``: ``settings``, ``store`` and ``seed``, as for the module.
    """

    module: PartitionModule

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        given = config.env_config
        self.settings = LearningSettings.from_document(given["settings"])
        self.store: GraphStore = given["store"]
        self._done: list[_Summary] = []
        self.best: dict[str, float] = {}
        self.anchors: dict[int, Anchor] = {}
        super().__init__(
            config=config,
            seed=int(given["seed"]),
            episodes=self.settings.rollouts,
            steps=self.settings.passes,
            **kwargs,
        )

    @property
    def environments(self) -> int:
        """The graphs of the store."""
        return len(self.store)

    @property
    def is_sequential(self) -> bool:
        """A policy that refines corrects what earlier groups have found."""
        return self.settings.anchor == "best"

    def plan(self, count: int, *, explore: bool = True, random: bool = False) -> GroupOrder:
        """The next group of rollouts, of the next graph; its context is the :class:`Anchor`, if there is one.

        Args:
            count: of the rollouts.
            explore: draw, or take every operator's likeliest chip.
            random: valid partitions that the solver draws with equal weights stand for the policy's.
        """
        order = super().plan(count, explore=explore, random=random)
        return replace(order, context=self.anchor(order.environment)) if self.is_sequential else order

    def make(self, order: GroupOrder) -> tuple[list[SingleAgentEpisode], Anchor | None]:
        """Episodes of one graph: T steps each, the reward at the last, and a column for each thing the learner needs.

        Returns:
            the episodes, and the graph's next anchor.
        """
        seeds = seeds_of(order.seed, order.first, order.count)
        group = self.rollouts(order.environment, seeds, order.context, explore=order.explore, random=order.random)
        self._done.append(_summary(group))
        return self._episodes_of(group), group.next_anchor

    def note(self, order: GroupOrder, outcome: Anchor | None) -> None:
        """Keep the graph's next anchor."""
        if outcome is not None:
            self.anchors[order.environment] = outcome

    def rollouts(
        self, number: int, seeds: Words, known: Anchor | None = None, *, explore: bool = True, random: bool = False
    ) -> Group:
        """One candidate of graph ``number`` for each of ``seeds``, repaired and priced.

        Args:
            number: of the graph in the store.
            seeds: of the draws, [R].
            known: the anchor, for a policy that corrects one.
            explore: draw; otherwise every operator is on its likeliest chip.
            random: take the solver's draws with equal weights for the repaired ones.
        """
        graph = self.store[number]
        observations = np.zeros((len(seeds), 3), dtype=np.int64)
        observations[:, GRAPH], observations[:, SEED] = number, seeds >> np.uint64(1)
        drawn, distributions = [], []
        anchor, busy = np.zeros(len(graph.problem.graph), dtype=np.int8), np.zeros((2, MAX_CHIPS), dtype=np.float32)
        batch: dict[str, Any] = {}
        if known is not None:
            anchor = known.chips
            busy = known.busy_shares(graph)
            batch = {
                PREVIOUS: torch.from_numpy(anchor).expand(len(seeds), -1),
                BUSY: torch.from_numpy(busy).expand(len(seeds), -1, -1),
            }
        forward = self.module.forward_exploration if explore else self.module.forward_inference
        for turn in range(self.settings.passes):
            observations[:, PASS] = turn
            answer = forward(batch | {Columns.OBS: torch.from_numpy(observations.copy())})
            batch = {PREVIOUS: answer[Columns.ACTIONS]}
            drawn.append(answer[Columns.ACTIONS].numpy())
            distributions.append((answer[DISTRIBUTIONS], answer[ROW]))
        if random:
            # What the policy drew has nothing to do with what is priced: it must not be credited.
            drawn[-1] = graph.sampler.sample(seeds).astype(drawn[-1].dtype)
            repaired = drawn[-1].astype(np.int8)
        else:
            repaired = self._repaired(graph, drawn[-1], distributions[-1], seeds)
        anchor_reward, after = 0.0, None
        if known is not None and known.cost_s is None:
            # What it costs must be known before anything can be better.
            drawn[-1][0] = repaired[0] = known.chips
        costs = self._costs(graph, repaired)
        if known is not None:
            known_s = costs[0] if known.cost_s is None else known.cost_s
            anchor_reward = float(graph.reward(np.array([known_s]))[0])
            after = known.after(repaired, costs)
        passes = np.stack(drawn), tuple(distributions)
        return Group(number, seeds, anchor, after, busy, anchor_reward, *passes, repaired, costs, graph.reward(costs))

    def anchor(self, number: int) -> Anchor:
        """The partition that the policy corrects; at first, and again after ``anchor_visits`` groups, the prior."""
        anchor = self.anchors.get(number)
        if anchor is None or anchor.groups == self.settings.anchor_visits > 0:
            anchor = self.anchors[number] = Anchor(self._first_anchor(self.store[number]))
        return anchor

    def _first_anchor(self, graph: StoredGraph) -> Chips:
        """The prior as a valid partition, or every other time the graph's start; without both any."""
        seeds = self._seeds(1)
        if graph.start is not None and int(seeds[0]) >> 63:
            return np.array(graph.start, dtype=np.int8)
        if self.settings.prior == "none":
            return np.asarray(graph.sampler.sample(seeds)[0])
        chips = graph.problem.chips
        candidate = np.minimum(graph.sequence.work * chips, chips - 1).astype(np.int64)
        return np.asarray(graph.sampler.fix(candidate[None], seeds, orders=graph.sequence.order[None])[0])

    def _repaired(
        self, graph: StoredGraph, drawn: Ints, distribution: tuple[ChipDistribution, torch.Tensor], seeds: Words
    ) -> Chips:
        """Valid partitions: near the candidates (FIX), or drawn from their distributions (SAMPLE)."""
        if self.settings.solver == "none":
            return drawn.astype(np.int8)
        orders = mixed_orders(graph.sequence.order, seeds) if self.settings.order == "mixed" else None
        if self.settings.solver == "fix":
            return graph.sampler.fix(drawn, seeds, orders=orders)
        weights = distribution[0].log_probabilities.exp().double().numpy()
        which = distribution[1].numpy()
        parts = np.empty(drawn.shape, dtype=np.int8)
        for place in range(len(weights)):
            rows = np.flatnonzero(which == place)
            own = None if orders is None else orders[rows]
            parts[rows] = graph.sampler.sample(seeds[rows], weights[place], own)
        return parts

    def _costs(self, graph: StoredGraph, chips: Chips) -> Floats:
        if self.settings.solver != "none":
            return graph.evaluator.costs(chips)
        valid = np.array([not violations(graph.problem, row.tolist()) for row in chips])
        costs = np.full(len(chips), np.inf)
        if valid.any():
            costs[valid] = graph.evaluator.costs(chips[valid])
        return costs

    def _episodes_of(self, group: Group) -> list[SingleAgentEpisode]:
        turns, count, _ = group.drawn.shape
        credited = group.drawn.astype(np.int8)
        if self.settings.credit == "repaired":
            credited[-1] = group.repaired
        likelihood = np.stack(
            [
                ChipDistribution(distribution.log_probabilities[which])
                .log_probability(torch.from_numpy(chips))
                .numpy()
                .astype(np.float32)
                for (distribution, which), chips in zip(group.distributions, credited, strict=True)
            ]
        )
        gain = advantages(group.rewards, self.settings.advantage, group.anchor_reward).astype(np.float32)
        episodes = []
        for row in range(count):
            seed = int(group.seeds[row]) >> 1
            seen = [np.array([group.number, seed, turn], dtype=np.int64) for turn in range(turns + 1)]
            # What a pass sees is what the one before drew; the first sees the anchor, if there is one.
            rewards: list[SupportsFloat] = [*[0.0] * (turns - 1), float(group.rewards[row])]
            previous = [group.anchor, *group.drawn[:-1, row].astype(np.int8)]
            measured = [group.busy, *[np.zeros_like(group.busy)] * (turns - 1)]
            episodes.append(
                SingleAgentEpisode(
                    observations=seen,
                    actions=list(credited[:, row]),
                    rewards=rewards,
                    terminated=True,
                    extra_model_outputs={
                        PREVIOUS: previous,
                        BUSY: measured,
                        Columns.ACTION_LOGP: list(likelihood[:, row]),
                        ADVANTAGE: [gain[row]] * turns,
                        COST: [float(group.costs[row])] * turns,
                        REPAIRED: [group.repaired[row]] * turns,
                    },
                    len_lookback_buffer=0,
                )
            )
        return episodes

    def _seeds(self, count: int) -> Words:
        return seeds_of(self.own_seed, self.take_numbers(count), count)

    def get_metrics(self) -> Any:
        """Mean and best reward, and shares of what cannot run and of operators that the solver moved, recently."""
        for done in self._done:
            graph = self.store[done.number]
            self.best[graph.name] = min(self.best.get(graph.name, np.inf), done.best_cost_s)
            self.metrics.log_value(names.EPISODE_RETURN_MEAN, done.reward, window=100)
            best = graph.reward(np.array([self.best[graph.name]]))
            self.metrics.log_value("reward_of_best", float(best[0]), window=1)
            self.metrics.log_value("infeasible", done.infeasible, window=100)
            self.metrics.log_value("moved", done.moved, window=100)
        self._done.clear()
        return self.metrics.reduce()

    def get_spaces(self) -> dict[str, Any]:
        """Observation and action space, as RLlib asks for them."""
        spaces = (OBSERVATION_SPACE, ACTION_SPACE)
        return {INPUT_ENV_SPACES: spaces, INPUT_ENV_SINGLE_SPACES: spaces, DEFAULT_MODULE_ID: spaces}

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Where the rollouts are, the best that is known, and the weights."""
        return super().get_state(*args, **kwargs) | {
            _BEST: dict(self.best),
            _ANCHORS: {number: (each.chips, each.cost_s, each.groups) for number, each in self.anchors.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`get_state` gave; a state of weights alone leaves the rest as it is."""
        super().set_state(state)
        self.best = dict(state.get(_BEST, self.best))
        if _ANCHORS in state:
            self.anchors = {number: Anchor(*each) for number, each in state[_ANCHORS].items()}

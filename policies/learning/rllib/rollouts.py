"""Episodes made by several processes: RLlib's group of runners, on one node or many.

One runner in the trainer's process plans every group of an iteration (:meth:`GroupRunner.plan`); actors make them, and
the episodes are put together in the order of the plan. A group depends on its order and the weights alone, so neither
the number of actors nor which of them is faster, or dies, changes an episode.
"""

import pickle
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import ray
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.run.progress import StopSignal, ask
from hardware.inputs import fail
from policies.learning import COMMAND
from policies.learning.rllib.runner import GroupOrder, GroupRunner

_AHEAD = 2
"""Calls that an actor has at a time, so that it need not wait for the next."""

_SHARE = 4
"""A call gets this part of an actor's share of the groups that wait: calls cost as much as a small group, and the last
ones are to be short, so that all actors end at the same time."""

_POLL_S = 0.01
"""RLlib waits for all calls that are under way, or for so long."""

_PING_S, _BETWEEN_PINGS_S = 0.1, 2.0
"""What RLlib waits for the answer of an actor that is being started again, while the others get nothing to do."""

_MAX_DEATHS = 3
"""Actors that may die of one group before the training is given up."""


@dataclass
class _Iteration:
    """The groups of one iteration.

    Attributes:
        orders: that are planned.
        waiting: places of those that no actor has; sorted.
        made: episodes by place.
        deaths: actors that died while they had the group of a place.
    """

    orders: list[GroupOrder] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    made: dict[int, list[SingleAgentEpisode]] = field(default_factory=dict)
    deaths: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def open_environments(self) -> set[int]:
        """Of planned groups that are not made."""
        return {order.environment for place, order in enumerate(self.orders) if place not in self.made}


class RunnerActors:
    """Runners in actors of their own; one that dies is started again, and its groups are made by the others.

    Args:
        config: of the algorithm, with their number.

    Attributes:
        group: RLlib's.
        assigned: the calls of each living actor: places, in the iteration, of groups.
    """

    def __init__(self, config: AlgorithmConfig) -> None:
        own = config.copy(copy_frozen=False)
        own.env_runners(max_requests_in_flight_per_env_runner=_AHEAD)
        own.fault_tolerance(
            restart_failed_env_runners=True,
            delay_between_env_runner_restarts_s=0,
            env_runner_health_probe_timeout_s=_PING_S,
        )
        self.group = EnvRunnerGroup(config=own, local_env_runner=False)
        self.assigned: dict[int, list[tuple[int, ...]]] = {}
        self._version = 0
        self._pinged_s = 0.0

    def episodes(
        self, planner: GroupRunner, groups: int, count: int, weights: dict[str, Any], stop: StopSignal
    ) -> list[SingleAgentEpisode]:
        """The next groups of the planner's environments, in its order.

        Args:
            planner: plans and notes.
            groups: how many.
            count: episodes of each.
            weights: of the policy.
            stop: is checked while actors work.

        Raises:
            StoppedError: ``stop`` gave a reason; the actors are of no more use.
            InputError: several actors have died of one group.
        """
        self._version += 1
        call = partial(_made, weights=[ray.put(weights)], version=self._version)
        iteration = _Iteration()
        self.assigned = {number: [] for number in self.group.healthy_env_runner_ids()}
        while len(iteration.made) < groups:
            ask(stop)
            _plan(planner, iteration, groups, count)
            self._send(call, iteration)
            ready: list[Any] = self.group.fetch_ready_async_reqs(timeout_seconds=_POLL_S)
            for number, (places, content) in ready:
                self.assigned[number].remove(places)
                if isinstance(content, Exception):
                    raise content
                for place, (episodes, outcome) in zip(places, pickle.loads(content), strict=True):
                    planner.note(iteration.orders[place], outcome)
                    iteration.made[place] = episodes
            self._replace(iteration)
        return [episode for place in range(groups) for episode in iteration.made[place]]

    def _send(self, call: Any, iteration: _Iteration) -> None:
        """Give every actor something to do."""
        for _ in range(_AHEAD):
            for number, calls in self.assigned.items():
                if len(calls) < _AHEAD and iteration.waiting:
                    places = self._choice(number, iteration)
                    work = partial(call, places=places, orders=[iteration.orders[place] for place in places])
                    if self.group.foreach_env_runner_async(work, remote_worker_ids=[number]):
                        iteration.waiting = [place for place in iteration.waiting if place not in places]
                        calls.append(places)

    def _choice(self, number: int, iteration: _Iteration) -> tuple[int, ...]:
        """The first groups of the actor's own environments, which it has prepared before; else the last of others."""
        actors, waiting = self.group.num_remote_env_runners(), iteration.waiting
        count = max(1, len(waiting) // (_SHARE * actors))
        own = [place for place in waiting if iteration.orders[place].environment % actors == number - 1]
        return tuple(own[:count] or waiting[-count:])

    def _replace(self, iteration: _Iteration) -> None:
        """Take their groups from actors that have died, and welcome those that live again."""
        healthy = set(self.group.healthy_env_runner_ids())
        for number in self.assigned.keys() - healthy:
            for place in chain.from_iterable(self.assigned.pop(number)):
                iteration.deaths[place] += 1
                if iteration.deaths[place] == _MAX_DEATHS:
                    rule = f"{_MAX_DEATHS} of them died on the same group of episodes"
                    raise fail(COMMAND, "--runners", str(self.group.num_remote_env_runners()), rule)
                iteration.waiting = sorted([*iteration.waiting, place])
        if not self.assigned:
            # Nothing is under way, so that RLlib does not wait either.
            time.sleep(_POLL_S)
        lacking = len(healthy) < self.group.num_remote_env_runners()
        if lacking and time.monotonic() - self._pinged_s > _BETWEEN_PINGS_S:
            self._pinged_s = time.monotonic()
            self.group.probe_unhealthy_env_runners()
            for number in self.group.healthy_env_runner_ids():
                self.assigned.setdefault(number, [])

    def close(self) -> None:
        """End the actors."""
        self.group.stop()


def _plan(planner: GroupRunner, iteration: _Iteration, groups: int, count: int) -> None:
    """Plan as long as it is known what groups depend on."""
    while len(iteration.orders) < groups:
        if planner.is_sequential and planner.upcoming in iteration.open_environments:
            return
        iteration.waiting.append(len(iteration.orders))
        iteration.orders.append(planner.plan(count))


def _made(
    runner: GroupRunner, *, weights: list[Any], version: int, places: tuple[int, ...], orders: list[GroupOrder]
) -> tuple[tuple[int, ...], bytes | Exception]:
    """The places and, of each, (episodes, what the planner is to note), pickled, in the actor; or an error.

    An error is returned because RLlib would end the actor for it and repeat the call. The rest is pickled here because
    Ray would look for closures in every episode and send each of their many small arrays apart.
    """
    torch.set_num_threads(1)
    try:
        if runner.weights_version != version:
            runner.set_state({COMPONENT_RL_MODULE: ray.get(weights[0])})
            runner.weights_version = version
        made = [runner.make(order) for order in orders]
    except Exception as error:
        return places, error
    # Nobody reads the runner's metrics here, and unread they grow.
    runner.get_metrics()
    return places, pickle.dumps(made, protocol=pickle.HIGHEST_PROTOCOL)

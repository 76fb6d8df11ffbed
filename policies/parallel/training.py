"""Episodes, replay and learning: RLlib's runners and DQN learners, and a prioritised replay."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.algorithms.dqn.dqn_learner import QF_LOSS_KEY, QF_MEAN_KEY
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME, TD_ERROR_KEY

from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.checkpoint import Checkpoint
from policies.learning.rllib.training import RLlibTraining
from policies.learning.task import Iteration
from policies.parallel.config import config_of
from policies.parallel.episodes import EpisodeSource
from policies.parallel.learner import QLearner
from policies.parallel.replay import StepReplay
from policies.parallel.runner import EpisodeRunner
from policies.parallel.settings import QSettings

_REPLAY, _UPDATES, _STEPS = "replay", "updates", "steps"


class QTraining(RLlibTraining[EpisodeRunner, QLearner]):
    """Rounds of episodes, each followed by updates from the replay.

    An iteration is one round; its samples are episodes.

    Args:
        settings: of network and learning.
        source: the environments.
        seed: of first weights, random actions and replay.
        actors: that it has for itself; without any it needs no Ray.
        checkpoint: weights to begin with.
    """

    def __init__(
        self,
        settings: QSettings,
        source: EpisodeSource,
        seed: int,
        actors: TrainingActors = NO_ACTORS,
        checkpoint: Checkpoint[QSettings] | None = None,
    ) -> None:
        self.settings = settings
        config = config_of(settings, source, seed, actors)
        super().__init__(config, EpisodeRunner, QLearner, settings.parts, settings.episodes, checkpoint)
        self._replay = StepReplay(settings.buffer, settings.alpha, seed)
        self._updates = self._steps = 0

    def minibatch_size(self, episodes: Sequence[SingleAgentEpisode]) -> int:
        """One step of each."""
        return len(episodes)

    def learn(self, episodes: Sequence[SingleAgentEpisode]) -> Iteration:
        """The updates that follow a round of episodes.

        Raises:
            LostLearnerError: a learner has died.
        """
        self._replay.add(episodes)
        self._steps += sum(map(len, episodes))
        scalars = {"reward": float(np.mean([each.get_return() for each in episodes]))}
        if self._steps >= self.settings.warm_up:
            for _ in range(self.settings.updates):
                results = self._learn()
            for name, key in (("loss", QF_LOSS_KEY), ("mean_q", QF_MEAN_KEY)):
                scalars[name] = float(np.mean([_number(each[DEFAULT_MODULE_ID][key]) for each in results]))
            self._share()
        return Iteration(len(episodes), {name: value for name, value in scalars.items() if np.isfinite(value)})

    def scalars(self, episodes: Sequence[SingleAgentEpisode], results: Sequence[dict[str, Any]]) -> dict[str, float]:
        """Not used: :meth:`learn` knows them."""
        return {}

    def _learn(self) -> list[dict[str, Any]]:
        """One update, after which the steps' priorities are their errors."""
        settings = self.settings
        # A fixed number of rewards would leave out the steps that have fewer behind them, the last of every episode.
        steps: Any = self._replay.draw(settings.batch, settings.lookahead, settings.beta, settings.gamma)
        self._updates += 1
        # The target network is due by this number, which RLlib takes for steps of the environment.
        results = self.learners.update(steps, timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self._updates})
        errors = np.empty(len(steps))
        for place, each in enumerate(results):
            # Every learner had every n-th step.
            own = [np.atleast_1d(part) for part in each[DEFAULT_MODULE_ID][TD_ERROR_KEY].peek()]
            errors[place :: len(results)] = np.concatenate(own)
        self._replay.update_priorities(errors)
        return results

    def state(self) -> dict[str, Any]:
        """Everything that going on needs."""
        return super().state() | {
            _REPLAY: self._replay.state(),
            _UPDATES: self._updates,
            _STEPS: self._steps,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` gave."""
        super().restore(state)
        self._replay.restore(state[_REPLAY])
        self._updates, self._steps = state[_UPDATES], state[_STEPS]


def _number(value: Any) -> float:
    return float(value.peek() if hasattr(value, "peek") else value)

"""RLlib's prioritised replay, whose steps come as they are."""

from dataclasses import dataclass

from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

from policies.parallel.episodes import Floats32


@dataclass(frozen=True, slots=True)
class Step:
    """A step to learn from, or several in one.

    Attributes:
        seen: before it, [F].
        behind: after it, [F].
        action: that was taken.
        reward: of all ``n_step`` steps, discounted.
        is_last: whether the episode ends with it.
        weight: of importance, at most 1.
        n_step: steps from one observation to the other.
    """

    seen: Floats32
    behind: Floats32
    action: int
    reward: float
    is_last: bool
    weight: float
    n_step: int

    def __len__(self) -> int:
        """One: RLlib counts the steps of what learners are given."""
        return 1


class StepReplay(PrioritizedEpisodeReplayBuffer):
    """A replay that draws the steps that RLlib's would, with the same random numbers.

    RLlib's :meth:`sample` makes an episode of each step, which takes as long as a small network takes to learn from it.
    """

    def steps(self, count: int, lookahead: int, beta: float, gamma: float) -> list[Step]:
        """Steps by their priorities, as ``sample(count, n_step=(1, lookahead + 1), …)`` of RLlib draws them.

        Args:
            count: of the steps.
            lookahead: rewards that each has at most.
            beta: exponent of the weights of importance.
            gamma: discount of later rewards.
        """
        self._last_sampled_indices = []
        total, size = self._sum_segment.sum(), self.get_num_timesteps()
        largest = (self._min_segment.min() / total * size) ** -beta
        steps = list[Step]()
        while len(steps) < count:
            place = self._sum_segment.find_prefixsum_idx(self.rng.random() * total)
            number, first, _ = self._indices[self._tree_idx_to_sample_idx[place]]
            episode = self.episodes[number - self._num_episodes_evicted]
            ahead = int(self.rng.integers(1, lookahead + 1))
            end = first + ahead
            if end > len(episode):
                continue
            reward = 0.0
            for each in reversed(episode.rewards.data[first:end]):
                reward = float(each) + gamma * reward
            seen, weight = episode.observations.data, (self._sum_segment[place] / total * size) ** -beta / largest
            is_last = end == len(episode) and bool(episode.is_terminated)
            steps.append(Step(seen[first], seen[end], episode.actions.data[first], reward, is_last, weight, ahead))
            self._last_sampled_indices.append(place)
        return steps

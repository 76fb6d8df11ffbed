"""The RLlib algorithm that trains a Q-network."""

from typing import Any

from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.rllib.learner_settings import with_learner
from policies.parallel.episodes import EpisodeSource
from policies.parallel.learner import QLearner, StepBatch
from policies.parallel.module import QModule
from policies.parallel.runner import EpisodeRunner, spaces_of
from policies.parallel.settings import QSettings


def config_of(
    settings: QSettings, source: EpisodeSource, seed: int = 0, actors: TrainingActors = NO_ACTORS
) -> DQNConfig:
    """The algorithm over the episodes of ``source``; its learners take the steps of :mod:`policies.parallel.replay`.

    Args:
        settings: everything about network and learning.
        source: the environments.
        seed: of the first weights, the random actions and the replay.
        actors: that play and learn; without any, this process does.
    """
    given: dict[str, Any] = {"settings": settings.document(), "source": source, "seed": seed}
    seen, actions = spaces_of(source)
    spec = RLModuleSpec(
        module_class=QModule,
        observation_space=seen,
        action_space=actions,
        model_config={"settings": settings.document(), "seed": seed},
    )
    config: DQNConfig = (
        DQN.get_default_config()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .framework("torch")
        .environment(observation_space=seen, action_space=actions, env_config=given)
        .env_runners(
            env_runner_cls=EpisodeRunner,
            num_env_runners=actors.runners,
            rollout_fragment_length=source.steps,
            batch_mode="complete_episodes",
        )
        .learners(
            num_learners=actors.learners,
            num_gpus_per_learner=float(actors.gpus),
        )
        .rl_module(rl_module_spec=spec)
        .training(
            lr=settings.learning_rate,
            gamma=settings.gamma,
            train_batch_size_per_learner=settings.batch,
            target_network_update_freq=settings.target_every,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": settings.buffer,
                "alpha": settings.alpha,
                "beta": settings.beta,
            },
            double_q=True,
            dueling=True,
            num_atoms=1,
            n_step=(1, settings.lookahead + 1),
            num_steps_sampled_before_learning_starts=settings.warm_up,
        )
    )
    return with_learner(
        config,
        learner_class=QLearner,
        learner_connector=lambda *_spaces: StepBatch(),
        add_default_connectors_to_learner_pipeline=False,
    )

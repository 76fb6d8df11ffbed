"""The RLlib algorithm that trains the partitioner."""

from pathlib import Path
from typing import Any

from ray.rllib.algorithms.ppo import PPO, PPOConfig

from policies.learning.rllib.learner_settings import with_learner
from policies.learning.rllib.runner import count_from_zero
from policies.partition.curves import algorithm_curves
from policies.partition.graph_store import GraphStore
from policies.partition.learner import PartitionLearner
from policies.partition.rl_module import ACTION_SPACE, OBSERVATION_SPACE, module_spec
from policies.partition.runner import PartitionRunner
from policies.partition.settings import LearningSettings


def config_of(
    settings: LearningSettings,
    store: GraphStore,
    seed: int = 0,
    env_runners: int = 0,
    learners: int = 0,
    gpus_per_learner: float = 0,
    events: Path | None = None,
) -> PPOConfig:
    """The algorithm over all graphs of ``store``: ``config_of(…).build_algo()``, ``train()``, ``save_to_path()``.

    An iteration is ``settings.graphs`` groups of rollouts, at least one for each runner, and then ``epochs`` ×
    ``minibatches`` steps of the optimiser.

    Args:
        settings: everything about policy and learning.
        store: the graphs; saved, where checkpoints of the algorithm are not to hold them.
        seed: of the first weights, the rollouts and the order of the graphs.
        env_runners: processes that make rollouts; 0: this one does.
        learners: processes that learn; 0: this one does.
        gpus_per_learner: CUDA devices of each.
        events: a folder that gets the iterations' curves for TensorBoard.
    """
    given: dict[str, Any] = {"settings": settings.document(), "store": store, "seed": seed}
    groups = max(settings.graphs, env_runners)
    rows = groups * settings.rollouts * settings.passes
    config: PPOConfig = (
        PPO.get_default_config()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .framework("torch")
        .environment(observation_space=OBSERVATION_SPACE, action_space=ACTION_SPACE, env_config=given)
        .env_runners(
            env_runner_cls=PartitionRunner,
            num_env_runners=env_runners,
            rollout_fragment_length="auto",
            batch_mode="complete_episodes",
        )
        .learners(
            num_learners=learners,
            num_gpus_per_learner=gpus_per_learner,
        )
        .rl_module(rl_module_spec=module_spec(settings, store, seed))
        .training(
            train_batch_size_per_learner=rows // max(1, learners),
            minibatch_size=max(1, rows // max(1, learners) // settings.minibatches),
            num_epochs=settings.epochs,
            shuffle_batch_per_epoch=False,
            lr=settings.learning_rate,
            grad_clip=settings.gradient_clip,
            grad_clip_by="global_norm",
            use_critic=False,
            use_gae=False,
            use_kl_loss=False,
            entropy_coeff=0.0,
        )
    )
    config = with_learner(config, learner_class=PartitionLearner, add_default_connectors_to_learner_pipeline=False)
    config = config.callbacks(on_algorithm_init=count_from_zero)
    return config if events is None else config.callbacks(on_train_result=algorithm_curves(events, settings.passes))

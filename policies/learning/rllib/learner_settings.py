"""Settings of RLlib's learners, whichever method of its configuration takes them."""

import inspect
from typing import Any, TypeVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)


def with_learner(config: ConfigT, **settings: Any) -> ConfigT:
    """``config`` with ``learner_class``, ``learner_connector`` or ``add_default_connectors_to_learner_pipeline``.

    Ray 2.50 takes them in ``training``, later versions in ``learners``.
    """
    takes = inspect.signature(config.learners).parameters
    configured: ConfigT = (config.learners if "learner_class" in takes else config.training)(**settings)
    return configured

"""Proposals of settings by Optuna's tree-structured Parzen estimator, a trial at a time.

What is proposed is a function of the seed, the number of the trial, and the trials that have been told: a study that is
restored from a journal goes on as if it had never been interrupted.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution

from dse.fabric.rules import RULES, RuleWeights
from dse.fabric.setting import Setting

SPACE: MappingProxyType[str, FloatDistribution] = MappingProxyType(
    {rule: FloatDistribution(0.02, 10.0, log=True) for rule in RULES}
    | {
        "initial_temperature": FloatDistribution(0.01, 3.0, log=True),
        "final_temperature": FloatDistribution(1e-4, 0.1, log=True),
        "final_reach": FloatDistribution(0.02, 1.0, log=True),
        "attraction": FloatDistribution(0.0, 0.9),
    }
)
"""What is tuned. Every rule keeps a little weight, so that the space has one scale."""


class SettingStudy:
    """Asks and tells of settings; scores are better when higher. Trial 0 is the untuned setting.

    Args:
        seed: of all proposals.
        parallel: whether several trials are under way at the same time: those count as bad ones until they are told, so
            that their neighbours are not proposed (constant liar).
    """

    def __init__(self, seed: int, parallel: bool = False) -> None:
        self._seed, self._parallel = seed, parallel
        self._asked: dict[int, optuna.Trial] = {}
        with _quiet():
            self._study = optuna.create_study(direction="maximize")

    def ask(self, number: int) -> Setting:
        """The setting of a trial."""
        seed = int(np.random.default_rng([self._seed, number]).integers(2**32))
        with _quiet():
            self._study.sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=self._parallel)
            if number == 0:
                self._study.enqueue_trial(_parameters(Setting.untuned()))
            self._asked[number] = self._study.ask(dict(SPACE))
        return setting_of(self._asked[number].params)

    def tell(self, number: int, score: float) -> None:
        """The score of a trial that was requested."""
        with _quiet():
            self._study.tell(self._asked.pop(number), score)

    def restore(self, setting: Setting, score: float) -> None:
        """A trial that was finished before, by this or another study."""
        with _quiet():
            self._study.add_trial(
                optuna.trial.create_trial(params=_parameters(setting), distributions=dict(SPACE), value=score)
            )


def setting_of(parameters: dict[str, Any]) -> Setting:
    """The setting with these parameters of :data:`SPACE`."""
    weights = RuleWeights(**{rule: parameters[rule] for rule in RULES})
    return Setting(weights, **{name: value for name, value in parameters.items() if name not in RULES})


def _parameters(setting: Setting) -> dict[str, float]:
    """The parameters of a setting, each the nearest that :data:`SPACE` has."""
    document = setting.document()
    weights: dict[str, float] = document.pop("weights")
    return {name: min(max(value, SPACE[name].low), SPACE[name].high) for name, value in (weights | document).items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's lines on stderr."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)

"""The curves of an RLlib algorithm."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils import metrics as names

from policies.learning.curves import CurveWriter


def learned_scalars(results: Mapping[str, Any], called: Mapping[str, str]) -> dict[str, float]:
    """A learner's metrics by module, as the curves call them; those that are missing or not finite are left out.

    Args:
        results: what the learner's update returned, as values.
        called: the names in the curves by the learner's own.
    """
    own = results.get(DEFAULT_MODULE_ID, {})
    scalars = {name: float(own[key]) for key, name in called.items() if key in own}
    return {name: value for name, value in scalars.items() if np.isfinite(value)}


class AlgorithmCurves:
    """RLlib's ``on_train_result`` that writes the curves of an algorithm; steps are samples.

    Rewards and shares are RLlib's means over the last groups of rollouts. An algorithm that continues from a checkpoint
    supersedes what was written behind it.

    Args:
        folder: of the event files.
        sampled, learned: names in the curves by those of the runners' and of the learner's metrics.
        steps_per_sample: steps of the environment that make a sample.
    """

    def __init__(
        self, folder: Path, sampled: Mapping[str, str], learned: Mapping[str, str], steps_per_sample: int = 1
    ) -> None:
        self._folder, self._steps_per_sample = folder.absolute(), steps_per_sample
        self._sampled, self._learned = dict(sampled), dict(learned)
        self._curves: CurveWriter | None = None

    def __call__(self, *, result: dict[str, Any], **_kwargs: Any) -> None:
        """Write what ``result`` has; it may lack anything after a runner has died."""
        sampled = result.get(names.ENV_RUNNER_RESULTS, {})
        steps = sampled.get(names.NUM_ENV_STEPS_SAMPLED_LIFETIME)
        if steps is None:
            return
        samples = int(steps) // self._steps_per_sample
        scalars = {name: float(sampled[key]) for key, name in self._sampled.items() if key in sampled}
        scalars |= learned_scalars(result.get(names.LEARNER_RESULTS, {}), self._learned)
        self._curves = self._curves or CurveWriter(self._folder, samples)
        finite = {f"training/{name}": value for name, value in scalars.items() if np.isfinite(value)}
        self._curves.append(samples, finite)

    def __getstate__(self) -> dict[str, Any]:
        # If it is recomputed, a new file begins.
        return self.__dict__ | {"_curves": None}

"""Bayesian search: Optuna's tree-structured Parzen estimator over the template's parameters, the black-box baseline.

The paper compares with Spotlight, a Bayesian search whose code cannot be had for training; TPE stands in its place
(Bergstra et al., NeurIPS 2011; multivariate as in Falkner et al., ICML 2018). It knows nothing of the problem but the
scores it is told. Parameters are ordinal: the position of a size among those of the space.

Points outside the area window are told as score 0 at once, and points drawn again as the score they had: neither is
evaluated or counts as a sample. What it proposes depends on the order in which scores arrive, so with workers the
answer can differ from run to run.
"""

import warnings
from collections.abc import Sequence

import optuna

from hardware.machines import Machines

_DRAWS_PER_SAMPLE = 20
"""A search gives up when it has drawn this many points for each sample it may take: the rest is known already."""

_PARAMETERS = ("tensor_cores", "vector_cores", "core_width", "core_depth", "global_buffer_bytes")

Point = tuple[int, ...]


class ArchitectureStudy:
    """An Optuna study as a :class:`~dse.codesign.search.sweep.Proposer`.

    Args:
        machines: the architectures.
        samples: architectures to evaluate.
        seed: of the sampler.
        parallel: evaluations that run at the same time; with more than one, points under evaluation are taken for bad
            ones, so that the sampler does not propose their neighbours (constant liar).
    """

    def __init__(self, machines: Machines, samples: int, seed: int, parallel: int = 1) -> None:
        columns = [getattr(machines, name).tolist() for name in _PARAMETERS]
        self._sizes = [sorted(set(column)) for column in columns]
        self._at: dict[Point, int] = {point: index for index, point in enumerate(zip(*columns, strict=True))}
        self._samples = min(samples, len(machines))
        self._parallel = parallel
        self._draws_left = _DRAWS_PER_SAMPLE * samples
        self._asked: dict[int, optuna.Trial] = {}
        self._scores: dict[int, float] = {}
        self._study = _study(seed, parallel > 1)

    def ask(self, limit: int) -> tuple[int, ...]:
        """One architecture that was not requested before; none while ``parallel`` are under evaluation."""
        while self._may_ask():
            self._draws_left -= 1
            trial = self._study.ask()
            point = tuple(
                sizes[trial.suggest_int(name, 0, len(sizes) - 1)]
                for name, sizes in zip(_PARAMETERS, self._sizes, strict=True)
            )
            index = self._at.get(point)
            if index is None:
                self._study.tell(trial, 0.0)
            elif index in self._scores:
                self._study.tell(trial, self._scores[index])
            elif index in self._asked:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                self._asked[index] = trial
                return (index,)
        return ()

    def _may_ask(self) -> bool:
        asked = len(self._asked)
        return self._draws_left > 0 and asked < self._parallel and asked + len(self._scores) < self._samples

    def tell(self, architecture: int, score: float) -> None:
        """The score of an architecture that was requested."""
        self._scores[architecture] = score
        self._study.tell(self._asked.pop(architecture), score)

    @property
    def finished(self) -> bool:
        """Whether all samples are told, or no draws are left."""
        return not self._asked and (len(self._scores) >= self._samples or self._draws_left == 0)

    @property
    def counted(self) -> Sequence[int]:
        """The architectures told, in that order."""
        return tuple(self._scores)

    @property
    def progress(self) -> tuple[int, int]:
        """Samples told, and samples in all."""
        return len(self._scores), self._samples


def _study(seed: int, parallel: bool) -> optuna.Study:
    """A seeded study, without Optuna's line on stderr."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=parallel)
        return optuna.create_study(direction="maximize", sampler=sampler)
    finally:
        optuna.logging.set_verbosity(verbosity)

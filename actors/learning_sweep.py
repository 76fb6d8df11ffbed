"""A sweep over how a network learns (:mod:`policies.learning.sweep`), with Ray Tune on the house's cluster.

A Tune trial trains and scores one trial of the sweep, and reports every checkpoint. The driver keeps each in the
trial's own folder as it comes: Tune's snapshots are not used, and a sweep that goes on begins each trial behind its
last checkpoint. All trials have the whole budget, so the table is that of one process, whatever finishes first.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray import tune

from actors.learning_trial import MADE, SCORE, TRIAL, Begin, LearningTrial
from actors.quiet_tune import run_trials
from actors.ray_executor import RayExecutor
from actors.windowed_map import PATIENCE_S
from dse.run.owned_folder import OwnedFolder
from dse.run.progress import ProgressCallback, StoppedError, StopSignal
from hardware.inputs import fail
from policies.learning.pretraining import Snapshot
from policies.learning.scores import Score
from policies.learning.sweep import SWEPT, SweepRun, Trial

_FAILURES = 3
"""Workers that may die under a trial before it is given up."""


def sweep(run: SweepRun, executor: RayExecutor, progress: ProgressCallback, stop: StopSignal) -> None:
    """As :func:`policies.learning.sweep.sweep`, by Tune on the Ray that ``executor`` has joined.

    Raises:
        StoppedError: ``stop`` gave a reason; finished work is in the directory.
        InputError: the cluster is accessed through Ray Client, where Tune would move the driver away from the
            directory.
    """
    if executor.through_client:
        raise fail(
            "dse pretrain", "--address", "ray://…", "a sweep needs a driver in the cluster: use `ray job submit`"
        )
    unfinished = run.unfinished()
    if not unfinished:
        return
    executor.release()
    driver = _Driver(run, unfinished, progress, stop)
    begins = tuple(_begin(run, trial) for trial in unfinished)
    with OwnedFolder("dse-tune-", Path(tempfile.gettempdir())) as folder:
        errors = run_trials(
            LearningTrial,
            {"begins": begins},
            folder.path,
            executor.workers,
            _Watch(driver, executor.notice_wait),
            [_Keeping(driver)],
            space={TRIAL: tune.grid_search(list(range(len(unfinished))))},
            max_failures=_FAILURES,
            max_concurrent_trials=executor.workers,
        )
    driver.finish(errors)


def _begin(run: SweepRun, trial: Trial) -> Begin:
    with run.opened(trial) as own:
        return Begin(own.plan, own.latest(), tuple(own.checkpoint(number) for number in own.unscored()))


class _Driver:
    """What this process knows of a sweep that is under way.

    Attributes:
        fault: what went wrong here, as a full disk; Tune would go on, so it ends the sweep and is raised after it.
        stopped: why ``stop`` ended it.
        heard: whether a worker has reported.
    """

    def __init__(self, run: SweepRun, unfinished: list[Trial], progress: ProgressCallback, stop: StopSignal) -> None:
        self.fault: Exception | None = None
        self.stopped: str | None = None
        self.heard = False
        self._run, self._unfinished, self._progress, self._stop = run, unfinished, progress, stop
        self._total = len(run.plan.trials) * run.plan.plan.checkpoints
        self._scored = sum(len(run.scores(trial)) for trial in run.plan.trials)

    @property
    def ended(self) -> bool:
        """Whether no more is to be done; asks ``stop``."""
        self.stopped = self.stopped or self._stop()
        return self.fault is not None or self.stopped is not None

    def take(self, result: dict[str, Any]) -> None:
        """Keep a checkpoint and its score."""
        self.heard = True
        if MADE not in result:
            return
        made, score = result[MADE], result[SCORE]
        assert isinstance(made, Snapshot)
        assert isinstance(score, Score)
        try:
            with self._run.opened(self._unfinished[result[TRIAL]]) as own:
                known = len(own.scores())
                # A trial that began again after its worker had died makes what is kept once more.
                if made.number > own.latest().number:
                    own.keep(made)
                own.keep_score(score)
                self._scored += len(own.scores()) - known
            self._progress(SWEPT, self._scored, self._total)
        except Exception as error:
            self.fault = self.fault or error

    def finish(self, errors: list[str]) -> None:
        """Raise what ended it before its time."""
        if self.fault is not None:
            raise self.fault
        if self.stopped is not None and self._scored < self._total:
            raise StoppedError(self.stopped)
        if errors:
            last = errors[0].strip().splitlines()[-1]
            raise fail("dse pretrain", "--sweep", "", f"{len(errors)} trials failed; the first: {last}")


class _Keeping(tune.Callback):
    """Hands what trials report to the driver; Tune pickles it, without the driver."""

    def __init__(self, driver: _Driver | None) -> None:
        self._driver = driver

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Keep what was reported."""
        if self._driver is not None:
            self._driver.take(result)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Keeping, (None,)


class _Watch(tune.Stopper):
    """Ends the sweep when the driver says so, and explains a wait in which no worker has reported yet."""

    def __init__(self, driver: _Driver | None, notice_wait: Callable[[], None] | None) -> None:
        self._driver, self._notice_wait = driver, notice_wait
        self._noticed_s = time.monotonic()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether to stop the whole sweep."""
        if self._driver is None:
            return False
        if not self._driver.heard and self._notice_wait and time.monotonic() - self._noticed_s > PATIENCE_S:
            self._noticed_s = time.monotonic()
            self._notice_wait()
        return self._driver.ended

    def __reduce__(self) -> tuple[Any, ...]:
        return _Watch, (None, None)

"""Tuning of the placer's rules (:mod:`dse.fabric.tuning`), with Ray Tune on the house's cluster.

A Tune trial judges one setting on its graphs. Optuna's study stays in the driver, behind Tune's searcher interface,
with the journal: Tune's snapshots are not used. What is proposed depends on the trials that have ended, so the result
depends on their order where there is more than one worker.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from actors.quiet_tune import run_trials
from actors.ray_executor import RayExecutor
from actors.task_trial import SHARES, TASK, TaskTrial
from dse.fabric.setting import TunedSetting
from dse.fabric.tuning.judge import Judge
from dse.fabric.tuning.plan import Task
from dse.fabric.tuning.tuning import SIMULATING, Tuning
from dse.run.owned_folder import OwnedFolder
from dse.run.progress import ProgressCallback, StoppedError, StopSignal
from hardware.inputs import fail

_FAILURES = 3
"""Times that a task may fail or lose its worker before the run is given up."""


class TuningSearcher(Searcher):
    """The tasks of a run of tuning, for Tune.

    Attributes:
        fault: what went wrong in the driver, as a full disk, or a task that fails again and again; Tune would go on, so
            it ends the run and is raised after it.
        stopped: why ``stop`` ended it.
    """

    def __init__(self, tuning: Tuning, progress: ProgressCallback, stop: StopSignal) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.stopped: str | None = None
        self._tuning, self._progress, self._stop = tuning, progress, stop
        self._under_way: dict[str, Task] = {}
        self._failures: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether no more is to be done; asks ``stop``."""
        self.stopped = self.stopped or self._stop()
        return self.fault is not None or self.stopped is not None or self._tuning.is_finished

    def suggest(self, trial_id: str) -> Any:
        """The next task as a config, or FINISHED; None while what comes next depends on those under way."""
        if self.ended:
            return Searcher.FINISHED
        task = self._tuning.ask()
        if task is None:
            return None
        self._under_way[trial_id] = task
        return {TASK: task}

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Take what a task has reached; one whose worker has died is handed out again."""
        task = self._under_way.pop(trial_id, None)
        if task is None:
            return
        try:
            if error or not result:
                self._lost(task)
            else:
                self._tuning.tell(task, result[SHARES])
                self._progress(SIMULATING, *self._tuning.simulations)
        except Exception as fault:
            self.fault = self.fault or fault

    def _lost(self, task: Task) -> None:
        self._failures[task.key] = self._failures.get(task.key, 0) + 1
        if self._failures[task.key] >= _FAILURES:
            raise fail("dse fabric tune", "", "", f"{task.key} failed {_FAILURES} times; see the workers' logs")
        self._tuning.ask_again(task)

    def save(self, checkpoint_path: str) -> None:
        """Write nothing that counts: a run continues from its journal."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, as :meth:`save`."""

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles the searcher in addition to its own state; the journal is a locked file.
        return {
            key: value for key, value in self.__dict__.items() if key not in ("_tuning", "_progress", "_stop", "fault")
        }


class _Ended(tune.Stopper):
    """Ends running trials as soon as the searcher needs no more."""

    def __init__(self, searcher: TuningSearcher | None) -> None:
        self._searcher = searcher

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether to stop the whole experiment."""
        return self._searcher is not None and self._searcher.ended

    def __reduce__(self) -> tuple[Any, ...]:
        return _Ended, (None,)


def tune_rules(tuning: Tuning, executor: RayExecutor, progress: ProgressCallback, stop: StopSignal) -> TunedSetting:
    """As :func:`dse.fabric.tuning.tuning.tune`, by Tune on the Ray that ``executor`` has joined.

    Raises:
        StoppedError: ``stop`` gave a reason; finished tasks are in the journal.
        InputError: the cluster is accessed through Ray Client, where Tune would move the driver away from the journal;
            or a task fails again and again.
    """
    if executor.through_client:
        raise fail(
            "dse fabric tune", "--address", "ray://…", "tuning needs a driver in the cluster: use `ray job submit`"
        )
    searcher = TuningSearcher(tuning, progress, stop)
    if not searcher.ended:
        executor.release()
        with OwnedFolder("dse-tune-", Path(tempfile.gettempdir())) as folder:
            run_trials(
                TaskTrial,
                {"judge": Judge(tuning.plan)},
                folder.path,
                executor.workers,
                _Ended(searcher),
                search_alg=searcher,
                num_samples=-1,
                max_concurrent_trials=executor.workers,
            )
    if searcher.fault is not None:
        raise searcher.fault
    if searcher.stopped is not None and not tuning.is_finished:
        raise StoppedError(searcher.stopped)
    return tuning.result()

"""Sweeps driven by Ray Tune: one trial evaluates a chunk of architectures, in actors that keep their graphs.

A :class:`SweepSearcher` hands the chunks of a :class:`~dse.codesign.search.sweep.Sweep` to Tune and takes what comes
back; order, stopping rule and answer are the sweep's, so a walk over area groups counts the same architectures as
in-process. Durability is the journal's: Tune's own snapshots come too seldom, and lie in a temporary folder.

A trial costs Tune 0.1 to 0.2 s and an actor some seconds to start, so chunks are sized by measured speed to some
seconds of work: to fewer at first, so that what is in flight when the sweep ends is a small part of its work. A trial
reports its chunk in parts of about two seconds: each reaches the store, and so the journal, in the driver as it comes,
and a sweep that has ended waits for no more than a part.
"""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

import dse
from actors.chunk_trial import NO_LIMITS, ChunkTrial
from actors.limits import Limits
from actors.metrics import MapMetrics
from actors.quiet_tune import run_trials
from actors.ray_executor import RayExecutor
from actors.tune_logs import loggers
from actors.windowed_map import PATIENCE_S, WorkersBrokenError
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import EvaluateMany
from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
from dse.codesign.problem import SearchOutcome
from dse.codesign.search import sweep
from dse.codesign.search.sweep import Proposer, Sweep, architectures_of
from dse.run.executor import Failed
from dse.run.owned_folder import OwnedFolder
from dse.run.progress import StopSignal

MAX_WORKERS = 50
"""Workers that Tune is given work for, at most: with trials of 6 s less than half of the 20 trials a second that it can
hand out (``benchmarks/scale_sweep.py``)."""

_TRIAL_S = 6.0
"""Work that a trial should hold: then Tune's part is small."""

_FIRST_TRIAL_S = 4.0
"""Work of the first trials. An actor takes about as long to start; one that is still starting when an earlier trial
ends is given up by Tune for the actor that is free."""

_PART_S = 2.0
"""Work between two reports of a trial: much more than the 10 ms that a report costs."""

_LARGEST_CHUNK = 4096

_FALSE_STARTS = 3
"""Trials for every worker that may end before they have begun, while none ever has."""

_DEATHS = 5
"""Workers that may die under one architecture, evaluated by itself, before it counts as failed."""


def _unheard(_text: str) -> None:
    """The listener of sweeps that nobody watches."""


class SweepSearcher(Searcher):
    """The order of a sweep for Tune.

    Args:
        sweep: what proposes and keeps.
        workers: trials that run at the same time; one more waits, so that no actor idles.
        stop: called before each trial.
        metrics: counts what becomes of the architectures.
        notice: receives messages for people about workers that died.

    Attributes:
        fault: what went wrong in the driver, as a full disk; Tune would swallow it, so it ends the sweep and is raised
            after it.
        stopped: why ``stop`` ended the sweep.
        busy_s: reported seconds of evaluation inside the trials.
    """

    def __init__(
        self,
        sweep: Sweep,
        workers: int,
        stop: StopSignal,
        metrics: MapMetrics | None = None,
        notice: Callable[[str], None] = _unheard,
    ) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self._notice = notice
        self._false_starts = 0
        self.stopped: str | None = None
        self.busy_s = 0.0
        self._sweep = sweep
        self.workers = workers
        self._stop = stop
        self._metrics = metrics
        self._running: dict[str, dict[int, JobTask]] = {}
        self._live: set[str] = set()
        self._any_started = False
        self._deaths: Counter[JobTask] = Counter()
        self._evaluated = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether no worker is known to be at work: none has begun a trial yet, or all that had are gone."""
        return not self._live

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be done; asks ``stop``."""
        if self.fault is not None:
            return True
        self.stopped = self.stopped or self._stop()
        return self.stopped is not None or self._sweep.proposer.finished

    def suggest(self, trial_id: str) -> Any:
        """The next chunk as a config, or FINISHED; None while enough run, or what comes next depends on them."""
        if self.ended:
            return Searcher.FINISHED
        if len(self._running) > self.workers:
            return None
        tasks = self._sweep.ask(self._architectures(self._trial_s))
        if not tasks:
            return Searcher.FINISHED if self._sweep.proposer.finished else None
        max_architectures = self._architectures(_PART_S)
        parts = [part for task in tasks for part in _parts(task, max_architectures)]
        self._running[trial_id] = dict(enumerate(parts))
        return {"parts": parts}

    @property
    def _trial_s(self) -> float:
        """Work of the next trial: a quarter of what was done so far, within limits."""
        return min(_TRIAL_S, max(_FIRST_TRIAL_S, self.busy_s / 4 / self.workers))

    def _architectures(self, seconds: float) -> int:
        """Architectures that make so much work, by the speed measured so far or, before any is, predicted."""
        each_s = self.busy_s / self._evaluated if self._evaluated else self._sweep.predicted_s(1)
        return max(1, min(_LARGEST_CHUNK, int(seconds / max(each_s, 1e-9))))

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Keep the evaluations of a part."""
        with self._noting_fault():
            self._take(trial_id, result)

    @contextmanager
    def _noting_fault(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.fault = self.fault or error

    def _take(self, trial_id: str, result: Mapping[str, Any]) -> None:
        self._any_started = True
        self._live.add(trial_id)
        version = result.get("version", dse.__version__)
        if version != dse.__version__:
            raise WorkersBrokenError(f"a worker runs dse {version}, but this is {dse.__version__}")
        task = self._running.get(trial_id, {}).pop(result.get("part", -1), None)
        if task is None:
            return
        answer = result["answer"]
        self.busy_s += result["seconds"]
        self._evaluated += len(architectures_of(task)) / self._sweep.jobs
        self._sweep.keep([(task, answer)])
        self._sweep.take(task, answer)
        if self._metrics is not None:
            self._metrics.count(
                len(architectures_of(task)), len(architectures_of(task)) if isinstance(answer, Failed) else 0
            )
            self._metrics.report(self._queued)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Keep the last part of a trial. What is left of one whose worker has died is requested again.

        The part that ran then is to blame: its architectures are evaluated one by one, and one that has cost too many
        workers by itself has failed.
        """
        with self._noting_fault():
            self._complete(trial_id, result, error)

    def _complete(self, trial_id: str, result: Mapping[str, Any] | None, error: bool) -> None:
        if result:
            self._take(trial_id, result)
        left, had_begun = list(self._running.pop(trial_id, {}).values()), trial_id in self._live
        self._live.discard(trial_id)
        if not error or not left:
            return
        if self._metrics is not None:
            self._metrics.died()
        if not had_begun:
            self._false_starts += 1
            if not self._any_started and self._false_starts >= _FALSE_STARTS * self.workers:
                raise WorkersBrokenError("a worker cannot start; see its logs in Ray's session folder")
        else:
            blamed = left.pop(0)
            self._deaths[blamed] += 1
            deaths = self._deaths[blamed]
            self._notice(f"a worker died on {_named(blamed)}, which is retried")
            if len(architectures_of(blamed)) > 1 or deaths >= _DEATHS:
                self._sweep.take(blamed, Failed(f"{deaths} worker processes died on it"))
            else:
                left.insert(0, blamed)
        self._sweep.ask_again(left)

    def _queued(self) -> int:
        """Architectures that were handed to trials and are not finished."""
        return sum(len(architectures_of(task)) for parts in self._running.values() for task in parts.values())

    def save(self, checkpoint_path: str) -> None:
        """Write nothing that counts: a run continues from its journal."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, as :meth:`save`."""

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles the searcher in addition to its own state; the store may be a locked file.
        return {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("_sweep", "_stop", "_metrics", "_notice", "fault")
        }


def _named(job_task: JobTask) -> str:
    """The architectures of a task for people."""
    first, *more = architectures_of(job_task)
    return f"architecture {first}" + (f" and {len(more)} more" if more else "")


def _parts(job_task: JobTask, max_architectures: int) -> list[JobTask]:
    """The architectures of a task in tasks of at most ``max_architectures``."""
    task = job_task.task
    assert isinstance(task, EvaluateMany)
    return [
        JobTask(job_task.job, EvaluateMany(task.indices[start : start + max_architectures], task.nodes))
        for start in range(0, len(task.indices), max_architectures)
    ]


class _Ended(tune.Stopper):
    """Ends running trials as soon as the searcher needs no more: what they do lies beyond the stopping point.

    It is called all the time, so it also reports a wait in which no worker is at work.
    """

    def __init__(self, searcher: SweepSearcher, notice_wait: Callable[[], None]) -> None:
        self._searcher: SweepSearcher | None = searcher
        self._notice_wait: Callable[[], None] | None = notice_wait
        self._noticed_s = time.monotonic()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Whether to stop the whole experiment."""
        searcher = self._searcher
        if searcher is None:
            return False
        now = time.monotonic()
        if not searcher.is_waiting:
            self._noticed_s = now
        elif self._notice_wait and now - self._noticed_s > PATIENCE_S:
            self._noticed_s = now
            self._notice_wait()
        return searcher.ended

    def __getstate__(self) -> dict[str, Any]:
        return {"_searcher": None, "_notice_wait": None, "_noticed_s": 0.0}


def search(context: SearchContext, *, proposer: Proposer, logs: Path | None = None) -> SearchOutcome:
    """As :func:`dse.codesign.search.sweep.search`, with Tune on the cluster that the executor has joined.

    Where that is reached through Ray Client (``ray://``), Tune would move the search to the cluster, away from the
    journal, and to more than :data:`MAX_WORKERS` it could not hand out work fast enough; the executor's own actors do
    the work then, with the same answer. ``logs``: the folder that gets the files
    of Tune's own loggers, one more folder each time; none are written without it.
    """
    executor = context.executor
    assert isinstance(executor, RayExecutor)
    if executor.through_client or executor.workers > MAX_WORKERS:
        return sweep.search(context, proposer=proposer)
    executor.release()
    state = Sweep(context, proposer)
    searcher = SweepSearcher(state, executor.workers, context.stop, executor.metrics(), executor.notice)
    try:
        run(searcher, state.evaluators, logs, executor.notice_wait, executor.limits)
    except WorkersBrokenError as error:
        raise executor.broken(error) from error
    return state.outcome(searcher.stopped)


def run(
    searcher: SweepSearcher,
    evaluators: JobEvaluators,
    logs: Path | None = None,
    notice_wait: Callable[[], None] = lambda: None,
    limits: Limits = NO_LIMITS,
) -> None:
    """Let Tune run the trials of ``searcher`` until it has ended.

    ``logs`` as in :func:`search`; ``notice_wait`` tells of a wait in which no worker is at work; ``limits``: what an
    architecture may take.

    Raises:
        WorkersBrokenError: no worker can do this work.
        Exception: what went wrong in the driver.
    """
    if searcher.ended:
        return
    with OwnedFolder("dse-tune-", Path(tempfile.gettempdir())) as folder:
        try:
            run_trials(
                ChunkTrial,
                {"evaluators": evaluators, "limits": limits},
                folder.path,
                searcher.workers,
                _Ended(searcher, notice_wait),
                [] if logs is None else loggers(),
                search_alg=searcher,
                num_samples=-1,
            )
        finally:
            if logs is not None:
                _keep_logs(folder.path / "trials", logs)
    if searcher.fault is not None:
        raise searcher.fault


def _keep_logs(experiment: Path, logs: Path) -> None:
    """Move what the loggers have written under ``experiment`` to a folder of its own in ``logs``."""
    number = sum(1 for _ in logs.glob("sweep-*")) + 1
    for file in experiment.rglob("*"):
        if file.name in ("result.json", "progress.csv") or file.name.startswith("events.out.tfevents"):
            target = logs / f"sweep-{number}" / file.relative_to(experiment)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, target)


def drivers(logs: Path | None) -> Mapping[str, Callable[..., SearchOutcome]]:
    """What drives a sweep where there are workers, by the name that the problem asks for it (``Run.methods``)."""
    return {"sweep": partial(search, logs=logs)}

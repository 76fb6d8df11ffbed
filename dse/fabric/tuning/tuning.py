"""The tasks of a run of tuning: what is to be judged next, and what follows from what was judged."""

from collections.abc import Sequence

import numpy as np
from pydantic import ValidationError

from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.fabric.setting import Setting, TunedSetting, WrittenSetting
from dse.fabric.tuning.judge import Judge, plan_digest
from dse.fabric.tuning.plan import Task, TuningPlan
from dse.fabric.tuning.study import SettingStudy
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal, ask, never_stop
from hardware.fabric_specs import fabric
from hardware.spec_fields import StrictModel

SIMULATING = "simulating"
"""What progress is reported of."""


class Tuning:
    """Hands out tasks and takes their shares of the bound; every one is in the journal before it counts.

    What the journal has is not judged again. One that belongs to another plan or simulator is not used.

    Args:
        plan: of the run.
        journal: of finished tasks.
        parallel: tasks that may be under way at the same time; with one, the result depends on the plan alone.
    """

    def __init__(self, plan: TuningPlan, journal: Journal, parallel: int = 1) -> None:
        self.plan = plan
        self._journal, self._parallel = journal, parallel
        self._identity = plan_digest(plan)
        self._study = SettingStudy(plan.seed, parallel > 1)
        self._under_way: dict[str, Task] = {}
        self._trials: dict[int, tuple[Setting, float]] = {}
        self._finals: dict[int, list[float]] = {}
        self._again: list[Task] = []
        self._mixture = self._recorded(plan.mixture_task())
        if self._mixture is not None:
            self._restore()

    def _restore(self) -> None:
        for number in range(self.plan.trials):
            entry = self._entry(f"trial {number}")
            if entry is not None:
                task = self.plan.trial_task(number, entry.setting.setting())
                self._trials[number] = task.setting, self._score(task, entry.shares)
                self._study.restore(*self._trials[number])
        if self._are_trials_told:
            for number in self._finalists:
                shares = self._recorded(self.plan.final_task(number, self._trials[number][0]))
                if shares is not None:
                    self._finals[number] = shares

    @property
    def is_finished(self) -> bool:
        """Whether all tasks are told."""
        return self._mixture is not None and self._are_trials_told and len(self._finals) == len(self._finalists)

    @property
    def simulations(self) -> tuple[int, int]:
        """Simulations of the tasks that are told, and of all."""
        plan = self.plan
        finished = plan.graphs * ((self._mixture is not None) + len(self._finals))
        total = plan.graphs * (1 + plan.finalists) + plan.trials * plan.graphs_per_trial
        return finished + len(self._trials) * plan.graphs_per_trial, total

    def ask(self) -> Task | None:
        """The next task; None where it depends on tasks under way, there are enough of these, or all are told."""
        if len(self._under_way) >= self._parallel:
            return None
        task = self._again.pop(0) if self._again else self._next()
        if task is not None:
            self._under_way[task.key] = task
        return task

    def _next(self) -> Task | None:
        if self._mixture is None:
            mixture = self.plan.mixture_task()
            return None if mixture.key in self._under_way else mixture
        for number in range(self.plan.trials):
            if number not in self._trials and f"trial {number}" not in self._under_way:
                return self.plan.trial_task(number, self._study.ask(number))
        if not self._are_trials_told:
            return None
        for number in self._finalists:
            task = self.plan.final_task(number, self._trials[number][0])
            if number not in self._finals and task.key not in self._under_way:
                return task
        return None

    def ask_again(self, task: Task) -> None:
        """A task that was requested was lost, as with a worker; :meth:`ask` gives it out again."""
        self._again.append(self._under_way.pop(task.key))

    def tell(self, task: Task, shares: Sequence[float]) -> None:
        """What a task that was requested has reached on each of its graphs."""
        self._journal.append(
            self._key(task.key), {"setting": task.setting.document(), "shares": [float(share) for share in shares]}
        )
        del self._under_way[task.key]
        if task.stage == "mixture":
            self._mixture = list(shares)
        elif task.stage == "trial":
            score = self._score(task, shares)
            self._trials[task.number] = task.setting, score
            self._study.tell(task.number, score)
        else:
            self._finals[task.number] = list(shares)

    def result(self) -> TunedSetting:
        """The best finalist, of equal ones the earliest trial.

        Raises:
            ValueError: tasks are missing.
        """
        if self._mixture is None or not self.is_finished:
            raise ValueError("tuning is unfinished: tasks are missing")
        best = max(self._finals, key=lambda number: (float(np.mean(self._finals[number])), -number))
        document = {
            "schema": "dse.fabric-rules/1",
            "fabric": fabric(self.plan.fabric).name,
            "simulator": simulator_fingerprint(fabric(self.plan.fabric)),
            "first_graph": self.plan.first_graph,
            "graphs": self.plan.graphs,
            "moves_per_unit": self.plan.moves_per_unit,
            "simulations": self.simulations[0],
            "seed": self.plan.seed,
            "share_of_bound": float(np.mean(self._finals[best])),
            "mixture_share_of_bound": float(np.mean(self._mixture)),
            "setting": self._trials[best][0].document(),
        }
        return TunedSetting.model_validate(document)

    @property
    def _are_trials_told(self) -> bool:
        return len(self._trials) == self.plan.trials

    @property
    def _finalists(self) -> list[int]:
        """The untuned setting, so that the result is no worse, and the best other trials."""
        best = sorted(self._trials, key=lambda number: (number > 0, -self._trials[number][1], number))
        return best[: self.plan.finalists]

    def _score(self, task: Task, shares: Sequence[float]) -> float:
        """Mean share of the bound above that of the mixture on the same graphs: some are harder than others."""
        assert self._mixture is not None
        return float(np.mean([share - self._mixture[graph] for share, graph in zip(shares, task.graphs, strict=True)]))

    def _recorded(self, task: Task) -> list[float] | None:
        entry = self._entry(task.key)
        return None if entry is None else entry.shares

    def _entry(self, key: str) -> "_Entry | None":
        if self._key(key) not in self._journal:
            return None
        try:
            return _Entry.model_validate(self._journal[self._key(key)])
        except (ValidationError, ValueError) as error:
            raise self._journal.damaged(self._key(key), error) from error

    def _key(self, key: str) -> str:
        return f"{self._identity} {key}"


class _Entry(StrictModel):
    """A task that was told, as it is in the journal."""

    setting: WrittenSetting
    shares: list[float]


def tune(tuning: Tuning, progress: ProgressCallback = lambda *_: None, stop: StopSignal = never_stop) -> TunedSetting:
    """Judge all tasks in this process.

    Raises:
        StoppedError: ``stop`` gave a reason; finished tasks are in the journal.
    """
    judge = Judge(tuning.plan, stop)
    while (task := tuning.ask()) is not None:
        ask(stop)
        tuning.tell(task, judge(task))
        progress(SIMULATING, *tuning.simulations)
    return tuning.result()

"""How many workers one driver can feed in a sweep, with Ray Tune and without.

Claim: up to :data:`actors.tune_sweep.MAX_WORKERS` workers Tune is given at most half of the trials that it can
hand out; beyond, the map of :mod:`actors.windowed_map` hands out the work, which costs almost nothing for each worker.

Method, all in one run. (1) Trials with almost no work go through Tune on four workers: what it hands out a second,
once all have started, is the maximum seen of one driver (that it does no more with more workers is assumed,
which is the careful side). (2) The driver's own part of an evaluation of BERT-large, to propose, journal and tell it,
is timed in-process, in CPU seconds. (3) From these: the workers that one driver can feed, for evaluations of 4 ms
to 1 s.
"""

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from actors import tune_sweep, windowed_map
from actors.tune_sweep import SweepSearcher
from benchmarks.recording import Record, Results, parser_of
from benchmarks.scale import REPEATS, own_ray
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import EvaluateMany
from dse.codesign.evaluation.job_evaluators import JobTask
from dse.codesign.formats import JournalledEvaluations
from dse.codesign.options import CodesignOptions
from dse.codesign.search.hysteresis import AreaWalk, NoNewBestRule
from dse.codesign.search.sweep import _CHUNK, Sweep
from dse.run.executor import InProcessExecutor, applied
from dse.run.journal import Journal
from dse.run.progress import never_stop

RECORD = Record(
    "scale_sweep",
    ("driver", "evaluation", "tune", "workers", "slow_workers"),
    {"main": ("an evaluation takes", "workers by Tune's trials", "by evaluations", "by the map's calls")},
)
MODEL, OTHER_MODEL, LEVEL = "bert-large", "gpt2-xl", 8
EACH_S = 0.002
WORKERS, TRIAL_S, TRIALS = 4, 0.01, 60
"""Workers, and the seconds and number of trials for each of them."""
DRIVER_SHARE = 0.5


class Napping:
    """Evaluators that sleep for every architecture."""

    def __call__(self, job_task):
        time.sleep(EACH_S * len(job_task.task.indices))
        return [0] * len(job_task.task.indices)


class Naps:
    """The side of a :class:`Sweep` that a searcher sees, for so many architectures that nap."""

    jobs = 1

    def __init__(self, count):
        self._left, self._done, self._count = count, 0, count
        self.proposer = self

    @property
    def finished(self):
        return self._done >= self._count

    def ask(self, max_tasks):
        taken = min(max_tasks, self._left)
        self._left -= taken
        return [JobTask(0, EvaluateMany(tuple(range(taken)), 1))] if taken else []

    def take(self, job_task, _answer):
        self._done += len(job_task.task.indices)

    def keep(self, _arrived):
        return

    def state(self):
        return self._done

    def predicted_s(self, architectures):
        return EACH_S * architectures


class Watched(SweepSearcher):
    """Notes when trials end."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ends_s = []

    def on_trial_complete(self, trial_id, result=None, error=False):
        super().on_trial_complete(trial_id, result, error)
        self.ends_s.append(time.perf_counter())


def trials_per_s() -> float:
    """Trials that Tune hands out a second, from the time on when a quarter of them has ended."""
    searcher = Watched(Naps(round(WORKERS * TRIALS * TRIAL_S / EACH_S)), WORKERS, never_stop)
    with ExitStack() as stack:
        for name in ("_TRIAL_S", "_FIRST_TRIAL_S", "_PART_S"):
            stack.enter_context(patch.object(tune_sweep, name, TRIAL_S))
        tune_sweep.run(searcher, Napping())
    ends_s = searcher.ends_s[len(searcher.ends_s) // 4 :]
    return (len(ends_s) - 1) / (ends_s[-1] - ends_s[0])


def evaluation_cost(model: str) -> tuple[float, float]:
    """(what the driver does for an evaluation, the evaluation itself), seconds."""
    problem = CodesignOptions((model,)).problem()
    machines, driver_s, work_s, count = problem.machines(), [], [], 0
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.jsonl") as journal:
        store = JournalledEvaluations(journal, problem, machines)
        context = SearchContext(problem, machines, InProcessExecutor(), store)
        sweep = Sweep(context, AreaWalk(machines.area_mm2, NoNewBestRule(LEVEL)))
        while not sweep.proposer.finished:
            begun = time.process_time()
            tasks = sweep.ask(64)
            ask_s = time.process_time() - begun
            for task in tasks:
                begun = time.process_time()
                answer = applied(sweep.evaluators, task)
                evaluated = time.process_time()
                sweep.keep([(task, answer)])
                sweep.take(task, answer)
                each = len(task.task.indices)
                driver_s.append((time.process_time() - evaluated + ask_s / len(tasks)) / each)
                work_s.append((evaluated - begun) / each)
                count += each
    return statistics.median(driver_s), statistics.median(work_s)


def predict(results, rate_per_s) -> None:
    """How many workers one driver can feed."""
    evaluation_cost(OTHER_MODEL)  # compiles, and knows nothing of the model after it
    evaluation_s, of_model_s = evaluation_cost(MODEL)
    results.figure("tune", f"{rate_per_s:.0f} trials per second")
    results.figure("driver", f"{1e6 * evaluation_s:.0f} µs")
    results.figure("evaluation", f"{1e3 * of_model_s:.0f} ms")
    results.figure("workers", f"{of_model_s / evaluation_s:,.0f}")
    results.figure("slow_workers", f"{1 / evaluation_s:,.0f}")
    for each_s in sorted({0.004, round(of_model_s, 4), 0.1, 1.0}):
        calls = DRIVER_SHARE * _CHUNK * each_s / windowed_map.DISPATCH_S
        workers = (rate_per_s * tune_sweep._TRIAL_S, each_s / evaluation_s, calls)
        results.row("main", f"{1e3 * each_s:g} ms", *(f"{count:,.0f}" for count in workers))


def main() -> int:
    """Prints the table; 1 if Tune is given more workers than it can feed."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    with tempfile.TemporaryDirectory(prefix="dse-", dir="/tmp") as name, own_ray(Path(name)):
        rate_per_s = statistics.median(trials_per_s() for _ in range(REPEATS))
    predict(results, rate_per_s)
    results.save(arguments.record)
    half = DRIVER_SHARE * rate_per_s * tune_sweep._TRIAL_S
    good = half >= tune_sweep.MAX_WORKERS
    print(f"half of Tune's trials feed {half:.0f} workers (it is given {tune_sweep.MAX_WORKERS} at most)")
    print("target met" if good else "TARGET MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

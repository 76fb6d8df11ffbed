"""Sweeps through Tune: the same answer as in-process, and nothing lost."""

import faulthandler
import json
import os
import sys
import time

import pytest
from ray import cloudpickle

from actors import chunk_trial, tune_sweep
from actors.limits import TOGETHER_S, Limits
from actors.ray_executor import RayExecutor
from actors.tune_sweep import SweepSearcher
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluate
from dse.codesign.evaluation.job_evaluators import JobTask
from dse.codesign.search.bayesian import ArchitectureStudy
from dse.codesign.search.hysteresis import AreaWalk, NoNewBestRule, search
from dse.codesign.search.sweep import SWEEP_NODES, Sweep
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop
from hardware.inputs import Fault, InputError
from tests.codesign.test_exhaustive import TINY_MODEL, small

LEVEL = 2

# What workers are given brings its code along: to import this file takes them a second.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return small(path, tensor_parallel="1", microbatch="1").problem()


@pytest.fixture(scope="module")
def walked(problem):
    """The walk in this process, and its store."""
    store = {}
    return search(SearchContext(problem, problem.machines(), InProcessExecutor(), store), level=LEVEL), store


def walk(problem):
    return AreaWalk(problem.machines().area_mm2, NoNewBestRule(LEVEL))


@pytest.mark.ray_interface
def test_the_answer_is_that_of_the_walk_in_process_and_tunes_own_loggers_write_scalars(
    problem, walked, ray_executor, capfd, tmp_path
):
    store = {}
    context = SearchContext(problem, problem.machines(), ray_executor, store)
    assert tune_sweep.search(context, proposer=walk(problem), logs=tmp_path / "tune") == walked[0]
    assert store.items() >= walked[1].items()
    assert capfd.readouterr().out == ""
    (report,) = [path for path in (tmp_path / "tune" / "sweep-1").glob("*/result.json") if path.stat().st_size][:1]
    last = json.loads(report.read_text().splitlines()[-1])
    assert last["architectures_per_s"] > 0
    assert "answer" not in last
    for name in ("progress.csv", "events.out.tfevents.*"):
        assert list(report.parent.glob(name))


def test_the_logs_of_each_sweep_have_a_folder_of_their_own(tmp_path):
    experiment = tmp_path / "experiment"
    for number in (1, 2):
        (experiment / "trial").mkdir(parents=True, exist_ok=True)
        for name in ("result.json", "progress.csv", "events.out.tfevents.7", "trainable.pkl"):
            (experiment / "trial" / name).write_text(str(number))
        tune_sweep._keep_logs(experiment, tmp_path / "tune")
    for number in (1, 2):
        kept = {path.name: path.read_text() for path in (tmp_path / "tune" / f"sweep-{number}" / "trial").iterdir()}
        assert kept == dict.fromkeys(("result.json", "progress.csv", "events.out.tfevents.7"), str(number))


def test_what_is_in_the_store_starts_no_trial(problem, walked, ray_executor, monkeypatch):
    monkeypatch.setattr(tune_sweep.SweepSearcher, "on_trial_complete", lambda *_: pytest.fail("a trial was run"))
    found = tune_sweep.search(
        SearchContext(problem, problem.machines(), ray_executor, dict(walked[1])),
        proposer=walk(problem),
    )
    assert found == walked[0]


def test_nothing_beyond_the_end_is_asked_for_where_the_store_has_all_before_it(problem, walked):
    searcher = searcher_of(problem, dict(walked[1]))
    assert len(walked[0].evaluated) < searcher._architectures(searcher._trial_s)
    assert searcher.suggest("trial a") == searcher.FINISHED
    assert searcher._sweep.outcome(None) == walked[0]


@pytest.mark.ray_interface
def test_bayesian_samples_are_evaluated_once_each(problem, ray_executor, capfd):
    machines = problem.machines()
    store = {}
    study = ArchitectureStudy(machines, 5, seed=0, parallel=2)
    found = tune_sweep.search(SearchContext(problem, machines, ray_executor, store), proposer=study)
    walked = [asked for asked in store if asked.task.nodes == SWEEP_NODES]
    assert len(found.evaluated) == len(walked) == 5
    assert capfd.readouterr().out == ""


class Poisoned:
    """Evaluators that do what ``fault`` says at one architecture."""

    def __init__(self, evaluators, architecture, fault):
        self.evaluators, self.architecture, self.fault = evaluators, architecture, fault

    def __call__(self, task):
        if self.architecture in task.task.indices:
            self.fault()
        return self.evaluators(task)


def refuse():
    raise ZeroDivisionError("refused")


def die():
    os._exit(1)


@pytest.fixture
def deadly(monkeypatch, ray_executor):
    """One death is enough for an architecture, and one trial has all that is left: one actor at a time has work."""
    monkeypatch.setattr(tune_sweep, "_DEATHS", 1)
    monkeypatch.setattr(tune_sweep, "_TRIAL_S", 1e6)
    monkeypatch.setattr(tune_sweep, "_FIRST_TRIAL_S", 1e6)
    ray_executor.release()
    return ray_executor


@pytest.mark.ray_interface
@pytest.mark.parametrize(
    ("fault", "reason"), [(refuse, "ZeroDivisionError: refused"), (die, "1 worker processes died on it")]
)
def test_a_poison_architecture_is_recorded_and_the_others_go_on(problem, walked, deadly, fault, reason):
    poison = list(walked[0].evaluated)[1]
    context = SearchContext(problem, problem.machines(), deadly, {})
    sweep = Sweep(context, walk(problem))
    tune_sweep.run(SweepSearcher(sweep, 2, never_stop), Poisoned(sweep.evaluators, poison, fault))
    assert context.failures == {JobTask(0, Evaluate(poison, SWEEP_NODES)): reason}
    found = sweep.outcome(None)
    assert found.evaluated[poison] == 0
    others = {index: score for index, score in walked[0].evaluated.items() if index != poison}
    assert {index: found.evaluated[index] for index in others} == others


def searcher_of(problem, store=None, stop=never_stop):
    context = SearchContext(problem, problem.machines(), InProcessExecutor(), {} if store is None else store)
    return SweepSearcher(Sweep(context, walk(problem)), 2, stop)


def test_a_trial_that_was_begun_again_counts_its_parts_once(problem):
    searcher = searcher_of(problem)
    part = searcher.suggest("trial a")["parts"][0]
    report = {"part": 0, "answer": searcher._sweep.evaluators(part), "seconds": 1.0}
    searcher.on_trial_result("trial a", report)
    told = list(searcher._sweep.proposer.counted)
    assert told
    searcher.on_trial_result("trial a", report)
    assert searcher._sweep.proposer.counted == told
    assert searcher.busy_s == 1.0


def test_long_trials_report_in_parts(problem, monkeypatch):
    searcher = searcher_of(problem)
    predicted_s = searcher._sweep.predicted_s(1)
    monkeypatch.setattr(tune_sweep, "_PART_S", 2.5 * predicted_s)
    parts = searcher.suggest("trial a")["parts"]
    asked = [index for part in parts for index in part.task.indices]
    assert len(parts) > 1
    assert all(len(part.task.indices) <= 2 for part in parts)
    assert len(asked) == len(set(asked))


def test_a_stopped_sweep_suggests_no_more(problem):
    searcher = searcher_of(problem, stop=lambda: "time limit")
    assert searcher.suggest("trial a") == searcher.FINISHED
    assert searcher.stopped == "time limit"


def test_what_a_dead_worker_left_is_asked_for_again(problem, monkeypatch):
    searcher = searcher_of(problem)
    monkeypatch.setattr(tune_sweep, "_PART_S", 2.5 * searcher._sweep.predicted_s(1))
    parts = searcher.suggest("trial a")["parts"]
    searcher.on_trial_result("trial a", {"started": True})
    searcher.on_trial_complete("trial a", None, error=True)
    again = searcher.suggest("trial b")["parts"]
    # The part that ran is split, the others come whole; a trial takes several, each in a part of its own.
    singles = [(index,) for index in parts[0].task.indices]
    assert len(singles) == 2
    assert [part.task.indices for part in again] == [*singles, *(part.task.indices for part in parts[1:])]


def test_an_architecture_is_given_up_after_as_many_workers_as_it_may_cost(problem, monkeypatch):
    monkeypatch.setattr(tune_sweep, "_PART_S", 0.0)
    searcher = searcher_of(problem)
    parts = searcher.suggest("trial 0")["parts"]
    (poison,) = parts[0].task.indices
    failed = JobTask(0, Evaluate(poison, SWEEP_NODES))
    for number in range(tune_sweep._DEATHS):
        assert failed not in searcher._sweep._context.failures
        searcher.on_trial_result(f"trial {number}", {"started": True})
        searcher.on_trial_complete(f"trial {number}", None, error=True)
        left = searcher.suggest(f"trial {number + 1}")["parts"]
    assert searcher._sweep._context.failures == {failed: f"{tune_sweep._DEATHS} worker processes died on it"}
    assert parts[0] not in left
    assert left[0] == parts[1]


def test_a_worker_that_dies_before_it_has_started_blames_nobody(problem):
    searcher = searcher_of(problem)
    parts = searcher.suggest("trial a")["parts"]
    searcher.on_trial_complete("trial a", None, error=True)
    assert searcher.suggest("trial b")["parts"] == parts


def test_a_sweep_without_room_says_what_it_waits_for(problem, monkeypatch):
    monkeypatch.setattr(tune_sweep, "PATIENCE_S", -1.0)
    told = []
    searcher = searcher_of(problem)
    ended = tune_sweep._Ended(searcher, lambda: told.append("waiting"))
    searcher.suggest("trial a")
    assert not ended.stop_all()
    assert told == ["waiting"]
    searcher.on_trial_result("trial a", {"started": True})
    assert not ended.stop_all()
    assert told == ["waiting"]
    # The only worker is lost with its node.
    searcher.on_trial_complete("trial a", None, error=True)
    searcher.suggest("trial b")
    assert not ended.stop_all()
    assert told == ["waiting", "waiting"]


class Many(RayExecutor):
    """More workers than Tune can feed, which need no Ray."""

    def __init__(self):
        super().__init__(tune_sweep.MAX_WORKERS + 1)
        self.asked = []

    def outcomes(self, function, items, *signals):
        self.asked.append(function)
        return InProcessExecutor().outcomes(function, items, *signals)


def test_more_workers_than_tune_can_feed_are_fed_by_the_map(problem, walked, monkeypatch):
    monkeypatch.setattr(tune_sweep, "run", lambda *_: pytest.fail("Tune was asked"))
    many = Many()
    found = tune_sweep.search(SearchContext(problem, problem.machines(), many, {}), proposer=walk(problem))
    assert found == walked[0]
    assert many.asked


class FullDisk(dict):
    """A store of which nothing can be kept."""

    def update(self, found):
        raise InputError([Fault("journal.jsonl", "", "", "cannot be written: No space left on device", None)])


def test_a_full_disk_ends_the_sweep_with_its_reason(problem, ray_executor):
    ray_executor.release()
    context = SearchContext(problem, problem.machines(), ray_executor, FullDisk())
    with pytest.raises(InputError, match="No space left"):
        tune_sweep.search(context, proposer=walk(problem))


def run_out_of_time():
    """As if the timer of the limit had run out, which is armed: no other architecture is to be slower than it."""
    faulthandler.dump_traceback_later(0.1, exit=True, file=chunk_trial._STDERR)
    time.sleep(1000)


def test_the_time_of_a_part_is_limited_and_that_of_the_first_includes_compiling(problem, monkeypatch):
    timers = []
    monkeypatch.setattr(
        "faulthandler.dump_traceback_later", lambda seconds, **how: timers.append((seconds, how["exit"]))
    )
    monkeypatch.setattr("faulthandler.cancel_dump_traceback_later", lambda: timers.append("cancelled"))
    searcher = searcher_of(problem)
    parts = searcher.suggest("trial a")["parts"]
    config = {"parts": [parts[0], parts[0]]}
    limits = Limits(timeout_s=2.0, compiles_s=8.0)
    trial = chunk_trial.ChunkTrial.__new__(chunk_trial.ChunkTrial)  # Tune's constructor makes folders
    trial.setup(config, searcher._sweep.evaluators, limits)
    extra_s = TOGETHER_S if len(parts[0].task.indices) > 1 else 0.0
    for _ in range(3):
        trial.step()
    assert timers == [(10.0 + extra_s, True), "cancelled", (2.0 + extra_s, True), "cancelled"]


def test_an_architecture_that_takes_too_long_costs_a_worker_and_fails(problem, walked, deadly, monkeypatch):
    poison, told = list(walked[0].evaluated)[1], []
    context = SearchContext(problem, problem.machines(), deadly, {})
    sweep = Sweep(context, walk(problem))
    searcher = SweepSearcher(sweep, 2, never_stop, notice=told.append)
    monkeypatch.setattr(tune_sweep, "_PART_S", 0.0)
    poisoned = Poisoned(sweep.evaluators, poison, run_out_of_time)
    tune_sweep.run(searcher, poisoned, limits=Limits(timeout_s=1000.0))
    assert list(context.failures) == [JobTask(0, Evaluate(poison, SWEEP_NODES))]
    assert any(f"on architecture {poison}, which is retried" in text for text in told)


def test_workers_of_another_version_and_workers_that_cannot_start_end_the_sweep(problem):
    searcher = searcher_of(problem)
    searcher.suggest("trial a")
    searcher.on_trial_result("trial a", {"started": True, "version": "0.0"})
    assert searcher.ended
    assert "runs dse 0.0" in str(searcher.fault)
    searcher = searcher_of(problem)
    for number in range(tune_sweep._FALSE_STARTS * searcher.workers):
        assert not searcher.ended
        searcher.suggest(f"trial {number}")
        searcher.on_trial_complete(f"trial {number}", None, error=True)
    assert "cannot start" in str(searcher.fault)

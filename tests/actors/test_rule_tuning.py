"""Tuning through Tune: every task once, whatever happens to its workers, and a run that is stopped goes on."""

import pytest

from actors.rule_tuning import TuningSearcher, tune_rules
from dse.fabric.tuning.plan import TuningPlan
from dse.fabric.tuning.tuning import Tuning
from dse.run.journal import Journal
from dse.run.progress import StoppedError, never_stop, silent
from hardware.inputs import InputError
from tests.actors import inside

PLAN = TuningPlan("plasticine-8x16", simulations=8, graphs=1, graphs_per_trial=1, finalists=2, moves_per_unit=5)


def test_a_run_that_is_stopped_goes_on_and_no_task_is_judged_twice(tmp_path, ray_executor):
    ray_executor.release()
    counts = []
    with Journal(tmp_path / "journal") as journal:
        # Of one worker, whose process is enough until then.
        with inside.workers(1) as executor, pytest.raises(StoppedError, match="enough"):
            tune_rules(
                Tuning(PLAN, journal, executor.workers),
                executor,
                lambda *done: counts.append(done[1]),
                lambda: "enough" if counts and counts[-1] >= 2 else None,
            )
        recorded = dict(journal)
        assert 2 <= len(recorded) < PLAN.simulations
    with Journal(tmp_path / "journal") as journal:
        tuning = Tuning(PLAN, journal, ray_executor.workers)
        tuned = tune_rules(tuning, ray_executor, silent, never_stop)
        assert {key: journal[key] for key in recorded} == recorded
        assert len(journal) == PLAN.simulations
        again = tune_rules(Tuning(PLAN, journal), ray_executor, lambda *_: pytest.fail("judged again"), never_stop)
        assert again == tuned == tuning.result()


@pytest.fixture
def searcher(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        yield TuningSearcher(Tuning(PLAN, journal, 2), silent, never_stop)


def test_a_task_whose_worker_has_died_is_handed_out_again(searcher):
    first = searcher.suggest("a")
    assert searcher.suggest("b") is None  # nothing can be scored before the mixture is
    searcher.on_trial_complete("a", error=True)
    assert searcher.suggest("c") == first
    searcher.on_trial_complete("c", {"shares": [0.5]})
    assert searcher.suggest("d")["task"].stage == "trial"
    assert searcher.fault is None


def test_a_task_that_fails_again_and_again_ends_the_run(searcher):
    for trial in "abc":
        assert not searcher.ended
        searcher.suggest(trial)
        searcher.on_trial_complete(trial, error=True)
    assert searcher.ended
    assert isinstance(searcher.fault, InputError)
    assert "mixture 0 failed 3 times" in str(searcher.fault)

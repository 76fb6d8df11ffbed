"""What is asked besides the answer: cut short, it is named as unfinished, and a continued run makes it."""

from functools import partial

import pytest

from dse.codesign.formats import JournalledEvaluations
from dse.codesign.sensitivity.analysis import analyse
from dse.run.journal import Journal
from tests.codesign.tiny import tiny_options
from tests.solving import solve


class StopIn:
    """A stop signal and a progress callback: stops once a phase of this name has begun."""

    def __init__(self, phase, reason):
        self._phase, self._reason, self._begun = phase, reason, False

    def progress(self, phase, _done, _total):
        self._begun = self._begun or phase.startswith(self._phase)

    def __call__(self):
        return self._reason if self._begun else None


def run(options, journal, stopper):
    problem = options.problem()
    store = JournalledEvaluations(journal, problem, problem.machines())
    return solve(options, store=store, progress=stopper.progress, stop=stopper, journal=journal)[0]


@pytest.fixture(autouse=True)
def one_knob(monkeypatch):
    monkeypatch.setattr("dse.codesign.further.analyse", partial(analyse, knobs=("hbm_bandwidth",)))


@pytest.mark.parametrize(
    ("phase", "reason", "made", "missing"),
    [
        ("architectures settled at", "time limit", [], ["pareto", "sensitivity"]),
        ("Pareto front", "interrupted", ["pareto"], ["pareto", "sensitivity"]),
        ("sensitivity", "time limit", ["pareto", "sensitivity"], ["sensitivity"]),
    ],
)
def test_what_is_cut_short_is_named_and_made_when_continued(tmp_path, phase, reason, made, missing):
    options = tiny_options(tmp_path, pareto=True, sensitivity=True)
    with Journal(tmp_path / "journal.jsonl") as journal:
        cut = run(options, journal, StopIn(phase, reason))
        assert [part for part in ("pareto", "sensitivity") if part in cut.metrics] == made
        assert cut.metrics["unfinished"] == missing
        assert (cut.status == "interrupted") == (reason == "interrupted")
        whole = run(options, journal, StopIn("never", reason))
    assert whole.metrics["unfinished"] == []
    assert whole.status == "optimal"
    assert whole.metrics["pareto"]["proven"]
    assert whole.metrics["sensitivity"]["stopped"] is None

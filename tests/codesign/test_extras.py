"""What is asked besides the answer: cut short, it is named as unfinished, and a continued run makes it."""

from functools import partial
from types import SimpleNamespace

import pytest

from dse.codesign.context import SearchContext
from dse.codesign.extras import extras
from dse.codesign.formats import JournalledEvaluations
from dse.codesign.problem import SearchOutcome
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
    monkeypatch.setattr("dse.codesign.extras.analyse", partial(analyse, knobs=("hbm_bandwidth",)))


@pytest.mark.parametrize(
    ("phase", "reason", "made", "missing"),
    [
        ("architectures settled at", "time limit", [], ["pareto", "sensitivity"]),
        ("Pareto front", "interrupted", ["pareto"], ["pareto", "sensitivity"]),
        ("sensitivity", "time limit", ["pareto", "sensitivity"], ["sensitivity"]),
    ],
)
def test_what_is_cut_short_is_named_and_made_when_continued(tmp_path, phase, reason, made, missing):
    options = tiny_options(tmp_path, pareto=True, sensitivity=True, tensor_parallel="1", microbatch="1")
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


class Hungry:
    """A part that takes all the time that it is given, by a clock that only moves as it works."""

    def __init__(self, need_s):
        self.need_s, self.now_s, self.given = need_s, 0.0, []

    def __call__(self, name, _outcome, context, _probes):
        given_s = context.deadline_s - self.now_s
        self.given.append((name, given_s))
        taken_s = min(given_s, self.need_s[name])
        self.now_s += taken_s
        self.need_s[name] -= taken_s
        return {"stopped": "time limit" if self.need_s[name] > 0 else None}


@pytest.mark.parametrize(
    ("need_s", "given", "unfinished"),
    [
        # neither takes the other's share; what the first leaves is the second's, and the other way round
        ({"pareto": 999.0, "sensitivity": 10.0}, [("pareto", 50.0), ("sensitivity", 50.0), ("pareto", 40.0)], 1),
        ({"pareto": 10.0, "sensitivity": 85.0}, [("pareto", 50.0), ("sensitivity", 90.0)], 0),
        ({"pareto": 999.0, "sensitivity": 999.0}, [("pareto", 50.0), ("sensitivity", 50.0)], 2),
    ],
)
def test_front_and_sensitivity_share_what_is_left(monkeypatch, need_s, given, unfinished):
    part = Hungry(dict(need_s))
    monkeypatch.setattr("dse.codesign.context.time.monotonic", lambda: part.now_s)
    monkeypatch.setattr("dse.codesign.extras._part", part)
    outcome = SearchOutcome(0, (), 1.0, (), {0: 1.0}, 1, proven=True)

    def stop():
        return "time limit" if part.now_s >= 100.0 else None

    context = SearchContext(None, None, None, {}, stop=stop, deadline_s=100.0)
    asked = SimpleNamespace(pareto=True, sensitivity=True)
    made = extras(asked, outcome, context, None)
    assert part.given == given
    assert len(made["unfinished"]) == unfinished


def test_a_share_ends_the_work_and_the_whole_does_not(monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr("dse.codesign.context.time.monotonic", lambda: now_s[0])
    whole = SearchContext(None, None, None, {}, deadline_s=100.0)
    half = whole.with_share(0.5)
    now_s[0] = 49.0
    assert half.stop() is None
    now_s[0] = 51.0
    assert half.stop() == "time limit"
    assert whole.stop() is None
    assert SearchContext(None, None, None, {}).with_share(0.5).stop() is None

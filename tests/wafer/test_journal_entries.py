"""What of a run is finished: it is not made again, and a count says what was done, not what was planned."""

import json
import math
import re
import time

import pytest

from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.run import Run
from dse.wafer import answer as module
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from hardware.inputs import InputError
from tests.solving import answer, faults
from tests.wafer.small import blocks_text, conv_line, graph_text

NO_TIME_TO_SEARCH = {"began_s": time.monotonic() - 0.95e6, "time_limit_s": 1e6}
"""The search has nine tenths of the time, and nineteen twentieths have passed."""


@pytest.fixture
def path(tmp_path):
    """A case whose answer is not proven."""
    found = tmp_path / "blocks.kgraph"
    found.write_text(blocks_text(adapter=5))
    return found


def stopped():
    return "time limit"


def forbidden(*_arguments):
    raise AssertionError("must not be made again")


def same(one, other):
    return one == other.model_copy(update={"seconds": one.seconds})


def test_a_finished_run_is_its_kept_answer(dse, path, tmp_path, monkeypatch):
    asked = ("wafer", path, "--workers", 0, "--moves", 200, "--out", tmp_path / "run")
    first = dse(*asked, "--json")
    assert (first.code, "is finished" in first.err) == (0, False)
    assert json.loads(first.out)["status"] == "feasible"
    assert json.loads(first.out)["metrics"]["unfinished"] == []
    monkeypatch.setattr("dse.wafer.contract.solve", forbidden)
    again = dse(*asked, "--resume", "--json")
    assert (again.code, again.out) == (0, first.out)
    assert f"dse: {tmp_path / 'run'} contains this run, which is already finished; its answer is returned" in again.err
    assert "finished" not in dse(*asked, "--resume", "--quiet").err


def test_a_finished_sweep_is_its_kept_answer(dse, path, tmp_path, monkeypatch):
    asked = ("wafer", path, "--workers", 0, "--moves", 200, "--sweep", "width=50,60", "--out", tmp_path / "run")
    first = dse(*asked, "--json")
    assert json.loads(first.out)["status"] == "feasible"
    monkeypatch.setattr("dse.wafer.contract.sweep", forbidden)
    assert dse(*asked, "--resume", "--json").out == first.out


def test_a_stopped_run_is_not_finished(dse, path, tmp_path):
    asked = ("wafer", path, "--workers", 0, "--moves", 10**10, "--time-limit", 0.5, "--out", tmp_path / "run")
    for more in ((), ("--resume",)):
        found = dse(*asked, *more)
        assert re.search(r"stopped early: .*search|stopped before a legal placement was found", found.out)
        assert "is finished" not in found.err
        assert "search" in json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]["unfinished"]
    assert dse("check", tmp_path / "run" / "result.json").out.strip() == "ok"


def test_a_search_that_has_ended_is_not_made_again(path, tmp_path, monkeypatch):
    options = WaferOptions(str(path), moves=200)
    whole, search, ended = answer(options), METHODS["portfolio"], []

    def stop():
        """Asked whether the search has ended, it says no; after that the bound is told to stop."""
        return "time limit" if len(ended) > 1 or (ended and ended.append(True)) else None

    def searched(context):
        found = search(context)
        ended.append(True)
        return found

    with Journal(tmp_path / "j") as journal:
        monkeypatch.setattr(module, "METHODS", {"portfolio": searched})
        cut = answer(options, stop=stop, journal=journal)
        assert cut.metrics["unfinished"] == ["bound"]
        assert (cut.solution, cut.bound <= whole.bound) == (whole.solution, True)
        assert faults(cut) == []
        monkeypatch.setattr(module, "METHODS", {"portfolio": forbidden})
        assert same(whole, answer(options, journal=journal))


def test_a_bound_that_is_computed_is_not_computed_again(path, tmp_path, monkeypatch):
    options = WaferOptions(str(path), moves=200)
    best = answer(options, directory=tmp_path)
    with Journal(tmp_path / "j") as journal:
        cut = answer(options, journal=journal, directory=tmp_path, **NO_TIME_TO_SEARCH)
        assert cut.metrics["unfinished"] == ["search"]
        assert cut.bound == best.bound
        monkeypatch.setattr(module, "cost_bound", forbidden)
        assert same(best, answer(options, journal=journal, directory=tmp_path))


def test_a_search_that_has_ended_without_a_placement_is_kept_as_well(dse, tmp_path, monkeypatch):
    # Four kernels of 3 × 2 and up on 5 × 5 tiles, on which the area does not show that they do not fit.
    found = tmp_path / "tight.kgraph"
    found.write_text(graph_text([conv_line(number) for number in range(1, 5)], [], width=5, height=5))
    options = WaferOptions(str(found), method="rows")
    shown = dse("wafer", found, "--method", "rows", "--workers", 0)
    assert (shown.code, "No legal placement was found, but none" in shown.out) == (3, True)
    stopped_at_once = dse("wafer", found, "--method", "rows", "--workers", 0, "--time-limit", 1e-9)
    assert (stopped_at_once.code, "stopped before a legal placement" in stopped_at_once.out) == (3, True)
    with Journal(tmp_path / "j") as journal:
        first = answer(options, journal=journal)
        assert (first.status, first.metrics["unfinished"]) == ("unknown", [])
        assert faults(first) == []
        monkeypatch.setattr(module, "METHODS", {"rows": forbidden})
        assert same(first, answer(options, journal=journal))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("search", {"placement": None}),
        ("search", {"placement": {"kernels": {}}, "evaluations": 1}),
        ("bound", -1.0),
        ("bound", 1e300),
        ("bound", "1"),
    ],
)
def test_a_damaged_entry_is_refused(path, tmp_path, key, value):
    options = WaferOptions(str(path), moves=0)
    total = answer(options).objective.value
    with Journal(tmp_path / "j") as journal:
        journal.append(key if key == "search" else f"bound below {total!r}", value)
        with pytest.raises(InputError):
            answer(options, journal=journal)


@pytest.mark.parametrize("method", ["portfolio", "slicing-tree"])
def test_a_stopped_search_counts_what_it_has_done(path, method):
    planned, asked = 10**10, []

    def stop():
        asked.append(1)
        return "time limit" if len(asked) > 60 else None

    found = answer(WaferOptions(str(path), method=method, moves=planned), stop=stop)
    # At each question no more than a slice of moves has been made since the one before.
    assert 0 < found.evaluations <= len(asked) * 50_000


def test_a_short_time_limit_starts_no_workers(dse, path, monkeypatch):
    monkeypatch.setattr("actors.ray_executor.RayExecutor.__enter__", forbidden)
    found = dse("wafer", path, "--workers", 2, "--moves", 10**10, "--time-limit", 0.2, "--json")
    # On a busy machine that may be too short for any answer.
    assert found.code in (0, 3), found.err
    assert "search" in json.loads(found.out)["metrics"]["unfinished"]


class Workers(InProcessExecutor):
    """Counts how often it is started."""

    begun = 0

    def __enter__(self):
        self.begun += 1
        return self


@pytest.mark.parametrize(
    ("limit_s", "item_timeout_s", "seconds", "begun"),
    [
        (math.inf, None, 9, 0),
        (math.inf, None, 11, 1),
        (60, None, 11, 1),
        (39, None, 11, 0),
        (60, None, 55, 0),
        (5, 1, 0, 1),
    ],
)
def test_workers_are_started_where_there_is_time_for_them(monkeypatch, limit_s, item_timeout_s, seconds, begun):
    clock, workers = [100.0], Workers()
    monkeypatch.setattr("dse.run.run.time.monotonic", lambda: clock[0])
    run = Run(executor=workers, time_limit_s=limit_s, item_timeout_s=item_timeout_s, began_s=100.0)
    with module._workers(run) as executor:
        clock[0] += seconds
        assert list(executor.map(abs, [-1])) == [1]
    assert workers.begun == begun

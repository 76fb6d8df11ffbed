"""``benchmarks/chaos.py`` ends with 1 where a target is missed."""

import pytest

from benchmarks import chaos
from benchmarks.killing import Difference, Kill

SOUND = Difference(lost=0, repeated=0, changed=0, unasked=0, ahead=3, same_result=True)


def mapped(count, **more):
    items = list(range(count))
    return {"outcomes": [-item for item in items], "arrived": items[::-1], **more}


def answers(**functions):
    """``in_own_process`` with such answers."""
    return lambda name, **_arguments: functions[name]


class FinishedRun:
    """A run that nothing needs to be waited for."""

    def __init__(self, folder, *command):
        self.folder, self.command = folder, command

    def finish(self, *arguments):
        return 0, ""

    def lines(self):
        return 4

    def killed(self, more, delay_s, *arguments):
        return Kill(("a",), 5, (), 1.0)


@pytest.mark.parametrize(("recovered_s", "met"), [(59.0, True), (61.0, False)])
def test_a_node_must_be_replaced_in_time(monkeypatch, recovered_s, met):
    monkeypatch.setattr(chaos, "in_own_process", answers(node_killed=mapped(200, recovered_s=recovered_s)))
    assert chaos.main(["--part", "nodes"]) == (0 if met else 1)


def test_a_node_must_cost_no_item(monkeypatch):
    report = mapped(200, recovered_s=1.0)
    report["outcomes"][7] = "lost"
    monkeypatch.setattr(chaos, "in_own_process", answers(node_killed=report))
    assert chaos.main(["--part", "nodes"]) == 1


@pytest.mark.parametrize(
    ("count", "trials", "met"),
    [
        (chaos.ACTOR_ITEMS, {}, True),
        (chaos.ACTOR_ITEMS - 1, {}, False),
        (chaos.ACTOR_ITEMS, {"same_answer": False}, False),
        (chaos.ACTOR_ITEMS, {"missing": 1}, False),
        (chaos.ACTOR_ITEMS, {"failed": ["5 worker processes died on it"]}, False),
    ],
)
def test_killed_workers_must_cost_nothing(monkeypatch, count, trials, met):
    actors = mapped(count, kills=3, seconds=1.0)
    sound = {"evaluated": 9, "same_answer": True, "missing": 0, "failed": [], "kills": 3, "seconds": 1.0}
    monkeypatch.setattr(chaos, "in_own_process", answers(actors_killed=actors, trials_killed=sound | trials))
    assert chaos.main(["--part", "workers"]) == (0 if met else 1)


@pytest.mark.parametrize(
    ("change", "met"),
    [({}, True), *(({fault: 1}, False) for fault in ("lost", "repeated", "changed", "unasked")),
     ({"same_result": False}, False)],
)  # fmt: skip
def test_killed_drivers_must_cost_nothing(monkeypatch, change, met):
    monkeypatch.setattr(chaos, "Run", FinishedRun)
    monkeypatch.setattr(chaos, "difference", lambda *_: Difference(**vars(SOUND) | change))
    assert chaos.main(["--part", "drivers"]) == (0 if met else 1)


def test_a_driver_whose_ray_stays_is_a_miss(monkeypatch):
    monkeypatch.setattr(chaos, "Run", FinishedRun)
    monkeypatch.setattr(chaos, "difference", lambda *_: SOUND)
    monkeypatch.setattr(FinishedRun, "killed", lambda *_: Kill(("a",), 5, ("raylet",), 60.0))
    assert chaos.main(["--part", "drivers"]) == 1


def test_one_missed_target_among_several_is_enough(monkeypatch, capsys):
    monkeypatch.setitem(chaos.PARTS, "nodes", lambda: True)
    monkeypatch.setitem(chaos.PARTS, "rate", lambda: False)
    assert chaos.main(["--part", "rate", "--part", "nodes"]) == 1
    assert "TARGET MISSED: rate" in capsys.readouterr().out

"""What stands beside the two trainings in the benchmark of learned pipelines."""

from types import SimpleNamespace

import pytest

from benchmarks import parallel_dqn
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of
from policies.parallel.pipeline.online import SHORTEST, STARTS, Best

TRIAL = PipelineTrial("t5-6", "A", "length", "near", "v100", "v100-ethernet")
UNFIT = SimpleNamespace(machine_of=lambda _problem: None)
COUNTS = (60, 40)
"""Plans that the two trainings priced."""


@pytest.mark.parametrize("name", ["random", "annealing"])
def test_two_searches_stand_beside_two_trainings_and_are_improved_as_these(monkeypatch, name):
    attribute = {"random": "drawn_plans", "annealing": "annealed_as_it_is"}[name]
    search, improve, began, ended = getattr(parallel_dqn, attribute), parallel_dqn.improved, [], []

    def watched(seen, count, seed, *start):
        began.append((count, seed))
        return search(seen, count, seed, *start)

    def watched_improvement(seen, searches, starts=SHORTEST):
        ended.append(([each.evaluations for each in searches], starts))
        return improve(seen, searches, starts)

    problem = problem_of(TRIAL)
    legal = search(parallel_dqn.coarse(problem, parallel_dqn.CUTTING), 50, 0)
    both = tuple(Best(list(legal.shortest), count) for count in COUNTS)
    monkeypatch.setattr(parallel_dqn, attribute, watched)
    monkeypatch.setattr(parallel_dqn, "improved", watched_improvement)
    monkeypatch.setattr(parallel_dqn, "trainings", lambda _context: both)
    monkeypatch.setattr(parallel_dqn, "trained_as_published", lambda _context: both[0])
    rows = {row.method: row for row in parallel_dqn.rows(problem, UNFIT, 2, is_trained=True)}
    two, one = list(COUNTS), [parallel_dqn.INTERACTIONS]
    assert rows[f"{name}, not improved, as dqn"].evaluations == sum(COUNTS)
    assert rows[f"{name}, not improved, as policy"].evaluations == sum(one)
    for seed in range(2):
        assert {(count, (seed, number)) for number, count in enumerate(COUNTS)} <= set(began)
    assert ended.count((two, SHORTEST)) == 2 * 4  # dqn, dqn alone, random and annealing
    assert ended.count((one, STARTS)) == 2 * 2  # random and annealing

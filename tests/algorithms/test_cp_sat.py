"""CP-SAT by the house's rules: answers by seed and deterministic limit, and an end when it is stopped."""

import signal
import threading

import pytest
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved


def model_of(items, bins):
    """Items of many sizes into bins whose fullest is to be as empty as can be: good answers at once, proofs hardly."""
    model = cp_model.CpModel()
    inside = [[model.new_bool_var("") for _ in range(bins)] for _ in range(items)]
    fullest = model.new_int_var(0, 10**9, "fullest")
    sizes = [10**6 + 7919 * number**2 % 99_991 for number in range(items)]
    for row in inside:
        model.add_exactly_one(row)
    for place in range(bins):
        model.add(sum(size * row[place] for size, row in zip(sizes, inside, strict=True)) <= fullest)
    model.minimize(fullest)
    return model


def test_small_models_are_proven_and_the_same_each_time():
    answers = [solved(model_of(7, 3), 10.0, seed=3) for _ in range(2)]
    assert [status for _, status in answers] == [cp_model.OPTIMAL] * 2
    assert answers[0][0].objective_value == answers[1][0].objective_value


def test_the_deterministic_limit_gives_the_same_answer_each_time():
    first, second = (solved(model_of(60, 7), 0.3)[0] for _ in range(2))
    assert first.objective_value == second.objective_value
    assert first.best_objective_bound == second.best_objective_bound


def test_a_stop_signal_ends_the_search_with_the_best_so_far():
    calls = []

    def stop():
        calls.append(None)
        return "time limit" if len(calls) > 10 else None

    solver, status = solved(model_of(60, 7), 1e9, stop=stop)
    assert status == cp_model.FEASIBLE
    assert solver.best_objective_bound < solver.objective_value


def test_signals_are_handled_while_the_solver_runs():
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append("interrupted"))
    try:
        threading.Timer(0.3, signal.raise_signal, (signal.SIGUSR1,)).start()
        _, status = solved(model_of(60, 7), 1e9, stop=lambda: next(iter(heard), None))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert status in (cp_model.FEASIBLE, cp_model.UNKNOWN)
    assert heard == ["interrupted"]


def test_an_exception_of_the_stop_signal_ends_the_search():
    """Without an end of the search this would take forever."""

    def fault():
        raise KeyError("meanwhile")

    with pytest.raises(KeyError, match="meanwhile"):
        solved(model_of(60, 7), 1e9, stop=fault)

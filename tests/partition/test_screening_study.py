"""What ``benchmarks.partition_screening`` says of trials: made-up ones, and a few real ones that it goes on with."""

import sys

import numpy as np
import pytest

from benchmarks import partition_screening as study
from benchmarks.partition_screening import METHODS, SCREEN, interval, table_of
from dse.reproduce.mcm.study import Trials


def costs_of(gains, graphs=("a", "b", "c"), seeds=(0, 1)):
    """Every method is as many times as fast as ``refine`` as ``gains`` says; graph, seed and count decide the rest."""
    return {
        (graph, name, seed): tuple((count, 100.0 * (place + 1) * (seed + 1) / count / gain) for count in (1, 20, 100))
        for place, graph in enumerate(graphs)
        for name, gain in gains.items()
        for seed in seeds
    }


def test_ratios_are_paired_and_the_best_of_before_is_the_better_one():
    gains = dict(zip(METHODS, (1.0, 1.2, 1.5), strict=True))
    table, left_out = table_of(costs_of(gains), ["a", "b", "c"], 20)
    assert (left_out, list(table.seeds)) == ([], [0, 1])
    assert table.best_of_before(100) == "portfolio"
    np.testing.assert_allclose(table.logs(SCREEN, "portfolio", 100), np.log(1.25))
    assert table.compared(SCREEN, "portfolio", 20) == (
        "+25.0 % [+25.0, +25.0]; better on 3, equal on 0, worse on 0 of 3 graphs"
    )


def test_graphs_without_an_answer_and_unfinished_seeds_are_left_out():
    costs = costs_of(dict.fromkeys(METHODS, 1.0))
    costs["b", SCREEN, 1] = ((60, 1.0),)
    del costs["c", "portfolio", 0]
    table, left_out = table_of(costs, ["a", "b", "c"], 20)
    assert (list(table.graphs), left_out, list(table.seeds)) == (["a", "c"], ["b"], [1])


def test_the_interval_holds_the_mean_and_grows_with_the_spread():
    draw = np.random.default_rng(1)
    narrow, wide = draw.normal(0.1, 0.01, 16), draw.normal(0.1, 0.1, 16)
    for logs, deviation in ((narrow, 0.01), (wide, 0.1)):
        low, high = interval(logs)
        assert low < logs.mean() < high
        # Of a normal mean: 2 · 1.96 deviations over the root of 16.
        assert 0.5 < (high - low) / (2 * 1.96 * deviation / 4) < 1.5


def test_finished_trials_are_not_made_again(tmp_path, monkeypatch, capsys):
    given = ["x", "--journal", str(tmp_path), "--samples", "25", "--graphs", "nin-cifar", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", given)
    study.main()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "1 graphs, 1 seeds; left out: none"
    assert [line.split("  ")[0] for line in shown[2:5]] == list(METHODS)
    monkeypatch.setattr(Trials, "made", lambda *_: pytest.fail("made again"))
    study.main()
    assert capsys.readouterr().out.splitlines() == shown

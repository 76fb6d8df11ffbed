"""What ``benchmarks.learning`` says of trials, on made-up ones."""

import pytest

from benchmarks import learning
from dse.reproduce.mcm.tables import Trial


def trials(costs):
    """{method: {graph: ((evaluations, cost), …)}} as trials of two seeds, alike."""
    return {
        Trial(graph, "analytical", method, seed, 40): curve
        for method, by_graph in costs.items()
        for graph, curve in by_graph.items()
        for seed in (0, 1)
    }


def test_graphs_are_counted_by_the_gain_of_learning(capsys):
    found = trials(
        {
            "plain rl": {"up": ((1, 4.0), (30, 2.0)), "same": ((1, 3.0),), "down": ((1, 5.0), (30, 4.5))},
            "random": {"up": ((1, 4.0), (30, 3.0)), "same": ((1, 9.0), (25, 3.0)), "down": ((1, 3.0),)},
        }
    )
    learning.learning_works(found, 40)
    told = capsys.readouterr().out
    assert "over random: better on 1, equal on 1, worse on 1 of 3" in told
    assert "over its own first 20: better on 2, equal on 1, worse on 0 of 3" in told
    # 3 / 2 of random's throughput, and twice its own.
    assert "+50.00 %  +100.00 %" in told


def test_transfer_is_counted_in_samples(capsys):
    found = trials(
        {
            "plain rl": {"a": ((1, 10.0), (30, 1.25))},
            "plain rl fine-tuned": {"a": ((1, 10.0), (7, 1.25), (11, 1.0))},
            "random": {"a": ((1, 10.0),)},
            "greedy": {"a": ((1, 2.0),)},
        }
    )
    learning.transfer(found, 40)
    told = capsys.readouterr().out
    assert "after 40 samples, share of the best known: plain rl 0.800, plain rl fine-tuned 1.000, random 0.100" in told
    assert "samples to 0.800: plain rl 30; plain rl fine-tuned 7" in told
    assert "samples to 0.900: plain rl never; plain rl fine-tuned 11" in told


def test_methods_are_compared_on_graphs_that_can_run(capsys):
    found = trials(
        {
            "greedy": {"a": ((1, 2.0),), "never": ()},
            "refine": {"a": ((1, 2.0), (30, 1.0)), "never": ()},
            "plain rl": {"a": ((1, 4.0), (30, 0.5)), "never": ()},
        }
    )
    learning.against(found, {"greedy": None, "refine": None, "plain rl": None}, (20, 40))
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert told[0].startswith("1 of 2 graphs can run")
    assert told[1:] == ["best that does not learn 1.000 2.000", "refine 1.000 2.000", "plain rl 0.500 4.000"]


@pytest.mark.parametrize(
    ("own", "theirs", "told"),
    [(0.0, float("-inf"), "the other cannot run"), (float("-inf"), 0.0, "cannot run"), (0.0, 0.0, "+0.0 %")],
)
def test_a_comparison_names_what_cannot_run(own, theirs, told):
    assert learning._percent(own, theirs) == told

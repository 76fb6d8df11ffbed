"""Graphs and contexts that the tests of the learned partitioner share."""

import numpy as np

from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.problem import PartitionGraph, PartitionProblem
from dse.partition.search.context import SearchContext
from dse.run.executor import InProcessExecutor
from policies.partition.graph_store import StoredGraph


def chain(count, seed=0, name="chain"):
    """A chain with a skip now and then, of uneven latencies and small tensors."""
    draw = np.random.default_rng(seed)
    edges = [(place, place + 1) for place in range(count - 1)]
    edges += [(place, place + 2) for place in range(0, count - 2, 5)]
    return PartitionGraph(
        name=name,
        names=tuple(f"n{place}" for place in range(count)),
        latency_s=draw.uniform(0.1e-3, 2e-3, count),
        output_bytes=draw.uniform(1e2, 1e3, count),
        weight_bytes=np.zeros(count),
        edges=np.array(edges, dtype=np.int64),
        flops=np.full(count, np.nan),
        moved_bytes=np.full(count, np.nan),
    )


def problem(count=24, chips=4, seed=0, name="chain"):
    return PartitionProblem(chain(count, seed, name), chips, 1e9)


def stored(count=24, chips=4, seed=0, name="chain", start=None):
    return StoredGraph.of(problem(count, chips, seed, name), start=start)


class Counting:
    """The reference evaluator, with everything that it was asked."""

    def __init__(self, asked):
        self.evaluator = AnalyticalEvaluator(asked)
        self.costs_s = []

    def costs(self, chips):
        found = self.evaluator.costs(chips)
        self.costs_s.extend(found.tolist())
        return found

    def busy_s(self, chips):
        return self.evaluator.busy_s(chips)


def context(asked, samples, seed=0, evaluator=None, **more):
    return SearchContext(asked, evaluator or Counting(asked), InProcessExecutor(), seed, samples, **more)

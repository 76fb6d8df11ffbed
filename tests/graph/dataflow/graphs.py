"""Small dataflow graphs as documents, and comparison of graphs whatever the order of their operators."""

from collections import Counter

FEED_FORWARD = {
    "schema": "dse.dataflow/1",
    "name": "feed-forward",
    "operators": [
        {"name": "input", "kind": "input", "elements": 12},
        {"name": "up", "kind": "gemm", "m": 3, "k": 4, "n": 8, "weight_elements": 40},
        {"name": "gelu", "kind": "gelu", "elements": 24},
        {"name": "down", "kind": "gemm", "m": 3, "k": 8, "n": 4, "weight_elements": 32},
        {"name": "residual", "kind": "add", "elements": 12},
        {"name": "norm", "kind": "layer_norm", "elements": 12, "row": 4, "weight_elements": 8},
        {"name": "output", "kind": "output", "elements": 12},
    ],
    "edges": [
        ["input", "up", 12],
        ["up", "gelu", 24],
        ["gelu", "down", 24],
        ["input", "residual", 12],
        ["down", "residual", 12],
        ["residual", "norm", 12],
        ["norm", "output", 12],
    ],
}

ATTENTION = {
    "schema": "dse.dataflow/1",
    "name": "attention",
    "operators": [
        {"name": "input", "kind": "input", "elements": 12},
        {"name": "joint", "kind": "gemm", "m": 3, "k": 4, "n": 12, "weight_elements": 48},
        {"name": "scores", "kind": "gemm", "m": 3, "k": 4, "n": 3},
        {"name": "softmax", "kind": "softmax", "elements": 9, "row": 3},
        {"name": "dropout", "kind": "dropout", "elements": 9},
        {"name": "context", "kind": "gemm", "m": 3, "k": 3, "n": 4},
        {"name": "output", "kind": "output", "elements": 12},
    ],
    "edges": [
        ["input", "joint", 12],
        ["joint", "scores", 12, "query"],
        ["joint", "scores", 12, "key"],
        ["scores", "softmax", 9],
        ["softmax", "dropout", 9],
        ["dropout", "context", 9],
        ["joint", "context", 12, "value"],
        ["context", "output", 12],
    ],
}


def named_operators(graph):
    """The operators by name."""
    return {operator.name: operator for operator in graph.operators}


def same_but_for_order(one, other):
    """Whether two graphs have the same operators and edges by name."""
    return named_operators(one) == named_operators(other) and Counter(one.named_edges) == Counter(other.named_edges)

"""How well predictions agree with labels: relative error and rank correlation (paper, section IV-A)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MIN_OF_GRAPH = 3
"""Placements of a graph with which ranks within it are compared."""


def relative_errors(predicted: Floats, label: Floats) -> Floats:
    """|ŷ − y| / y of every placement, [S]."""
    return np.asarray(np.abs(predicted - label) / label, dtype=np.float64)


def ranks(values: Floats) -> Floats:
    """Ranks from 0 on; equal values share the mean of theirs, [S]."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(count) - count
    return np.asarray((first + (count - 1) / 2)[place], dtype=np.float64)


def spearman(predicted: Floats, label: Floats) -> float:
    """Spearman's rank correlation ρ; 0 where all values of one are equal."""
    a, b = (each - each.mean() for each in (ranks(predicted), ranks(label)))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0


def within_graphs(predicted: Floats, label: Floats, graph: Integers) -> float | None:
    """The mean over graphs of ρ among placements of one graph; None where no graph has enough of them."""
    values = []
    for number in np.unique(graph):
        own = graph == number
        if own.sum() >= MIN_OF_GRAPH and len(np.unique(label[own])) > 1:
            values.append(spearman(predicted[own], label[own]))
    return float(np.mean(values)) if values else None


def placer_regime(graph: Integers, wirelength: Floats) -> npt.NDArray[np.bool_]:
    """The half of each graph's placements with the least wirelength, [S]; of an odd number the larger half."""
    mask = np.zeros(len(graph), dtype=bool)
    for number in np.unique(graph):
        own = np.flatnonzero(graph == number)
        mask[own[np.argsort(wirelength[own], kind="stable")[: -(-len(own) // 2)]]] = True
    return mask


@dataclass(frozen=True)
class Accuracy:
    """Of predictions on graphs held out from the training of a model.

    Attributes:
        error, placer_error: mean relative error (RE), of all placements and in the placer regime.
        correlation, placer_correlation: Spearman's ρ.
        within: mean ρ within graphs, if there are placements enough.
        placements: how many there are.
    """

    error: float
    placer_error: float
    correlation: float
    placer_correlation: float
    within: float | None
    placements: int


def accuracy(predicted: Floats, label: Floats, graph: Integers, wirelength: Floats) -> Accuracy:
    """The accuracy of predictions of y; all arguments [S]."""
    placer = placer_regime(graph, wirelength)
    errors = relative_errors(predicted, label)
    return Accuracy(
        error=float(errors.mean()),
        placer_error=float(errors[placer].mean()),
        correlation=spearman(predicted, label),
        placer_correlation=spearman(predicted[placer], label[placer]),
        within=within_graphs(predicted, label, graph),
        placements=len(label),
    )

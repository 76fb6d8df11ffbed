"""Predictions of examples that were held out, fold by fold."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from policies.fabric.model.examples import Examples, Learner

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def folds_by_graph(graph: Integers, folds: int, seed: int) -> list[Mask]:
    """What is held out in each fold: graphs as a whole, at random, [S] each."""
    graphs = np.random.default_rng(seed).permutation(np.unique(graph))
    return [np.isin(graph, graphs[fold::folds]) for fold in range(folds)]


def held_out_predictions(learner: Learner, examples: Examples, folds: Iterable[Mask]) -> Floats:
    """The target of every example as a model expects it that has not learned from its fold; nan in no fold, [S]."""
    predicted = np.full(len(examples), np.nan)
    for held_out in folds:
        predicted[held_out] = learner.fit(examples.at(~held_out)).predict(examples.at(held_out))
    return predicted

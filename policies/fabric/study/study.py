"""The accuracy tables: how well rules, baselines and networks predict placements of graphs held out from training.

Every learned row is of predictions that were held out, in five folds by graph unless its table says otherwise.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt

from dse.run.progress import ProgressCallback, StopSignal, ask, never_stop, silent
from policies.fabric.model.examples import Learner
from policies.fabric.model.features import FEATURES
from policies.fabric.study.accuracy import Accuracy, accuracy
from policies.fabric.study.folds import folds_by_graph, held_out_predictions
from policies.fabric.study.intervals import Interval, error_ratio
from policies.fabric.study.labelled import Labelled

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

RANKED_RULES = ("hops", "wirelength")
"""Rules that order placements and predict no slots."""

RULES = ("expert", "max_load", "busy", "route", "period")
"""Features that are slots of a sample by some rule."""

LEFT_OUT, ANNOTATIONS = "kind of block left out", "performance annotations"
"""Titles of tables."""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        table: that it belongs to.
        model: whose predictions these are.
        part: of the placements, such as a kind of block; empty: all.
        accuracy: of the predictions.
        ranks_only: the model predicts an order and no throughput, so that it has no relative error.
        ratio: its RE over that of the best baseline, or of the model that its table names, with its interval; None
            where it is not compared.
        graphs: learned from in each fold.
    """

    table: str
    model: str
    part: str
    accuracy: Accuracy
    ranks_only: bool = False
    ratio: Interval | None = None
    graphs: int = 0


@dataclass(frozen=True, eq=False)
class Study:
    """What is compared.

    Attributes:
        labelled: the samples.
        learners: by name.
        baselines: names of those that the others' errors are divided by: the best of them.
        folds: how many.
        seed: of the folds.
        stop: called before each fold.
        progress: of models that are fitted and have predicted.
    """

    labelled: Labelled
    learners: Mapping[str, Learner]
    baselines: tuple[str, ...] = ("ridge", "trees", "trees-all")
    folds: int = 5
    seed: int = 0
    stop: StopSignal = never_stop
    progress: ProgressCallback = silent

    def main_rows(self) -> list[Row]:
        """Rules, and all learners in folds by graph: all placements and each kind of block."""
        predictions = self._predictions_by_graph
        graphs = self._graphs_in_fold()
        rows = [*self._rule_rows()]
        errors = {name: self._accuracy(each).error for name, each in predictions.items()}
        best = min((name for name in self.baselines if name in errors), key=lambda name: errors[name], default=None)
        for name, predicted in predictions.items():
            ratio = None
            if best is not None and name != best:
                ratio = self._ratio(predicted, predictions[best], np.ones(len(predicted), dtype=bool))
            rows.append(Row("folds by graph", name, "", self._accuracy(predicted), ratio=ratio, graphs=graphs))
        for kind in np.unique(self.labelled.kind):
            part = self.labelled.kind == kind
            rows += [
                Row("by kind of block", name, str(kind), self._accuracy(predicted, part), graphs=graphs)
                for name, predicted in predictions.items()
            ]
        return rows

    def left_out_rows(self) -> list[Row]:
        """Each kind of block predicted by models that have learned from the others alone.

        The ratio of a row is its RE over that of the same model in folds by graph, on the same placements. The two have
        learned from different numbers of graphs: those of the other kinds, and those of the other folds.
        """
        kinds = self.labelled.kind
        parts = [kinds == kind for kind in np.unique(kinds)]
        predictions = self._held_out(parts, "models without a kind of block") if len(parts) > 1 else {}
        rows = []
        for part in parts:
            kind, graphs = str(kinds[part][0]), len(np.unique(self._graph[~part]))
            for name, predicted in predictions.items():
                ratio = self._ratio(predicted, self._predictions_by_graph[name], part)
                rows.append(Row(LEFT_OUT, name, kind, self._accuracy(predicted, part), ratio=ratio, graphs=graphs))
        return rows

    def annotation_rows(self) -> list[Row]:
        """All learners in folds by graph, with performance annotations and without.

        The ratio of a row without them is its RE over that of the same model with them.
        """
        untold = replace(self, labelled=replace(self.labelled, with_slots=False))._predictions_by_graph
        rows, graphs = [], self._graphs_in_fold()
        for name, predicted in self._predictions_by_graph.items():
            ratio = self._ratio(untold[name], predicted, np.ones(len(predicted), dtype=bool))
            rows.append(Row(ANNOTATIONS, name, "with annotations", self._accuracy(predicted), graphs=graphs))
            rows.append(Row(ANNOTATIONS, name, "without", self._accuracy(untold[name]), ratio=ratio, graphs=graphs))
        return rows

    @property
    def _graph(self) -> npt.NDArray[np.int64]:
        return self.labelled.examples.graph

    @cached_property
    def _predictions_by_graph(self) -> dict[str, Floats]:
        """ŷ of every learner in folds by graph, which several tables have, [S]."""
        slots = "" if self.labelled.with_slots else ", without annotations"
        return self._held_out(self._by_graph(), f"models in folds by graph{slots}")

    def _ratio(self, predicted: Floats, rival: Floats, part: Mask) -> Interval:
        """RE of one ŷ over that of another one, on a part of the placements."""
        label, graph = self.labelled.label[part], self._graph[part]
        return error_ratio(predicted[part], rival[part], label, graph, self.seed)

    def _by_graph(self) -> list[Mask]:
        return folds_by_graph(self._graph, self.folds, self.seed)

    def _graphs_in_fold(self) -> int:
        graphs = len(np.unique(self._graph))
        return graphs - graphs // self.folds

    def _held_out(self, folds: list[Mask], phase: str) -> dict[str, Floats]:
        """ŷ of every learner, each fold by a model that has not seen it, [S]."""
        numbers, total = count(), len(self.learners) * len(folds)

        def asked() -> Iterator[Mask]:
            for fold in folds:
                ask(self.stop)
                self.progress(phase, next(numbers), total)
                yield fold

        examples, label = self.labelled.examples, self.labelled.throughput_of
        predictions = {
            name: label(held_out_predictions(learner, examples, asked())) for name, learner in self.learners.items()
        }
        self.progress(phase, total, total)
        return predictions

    def _rule_rows(self) -> Iterator[Row]:
        features = self.labelled.examples.features
        for name in (*RANKED_RULES, *RULES):
            predicted = self.labelled.throughput_of(-features[:, FEATURES.index(name)])
            ranks_only = name in RANKED_RULES
            yield Row("folds by graph", name, "", self._accuracy(predicted), ranks_only=ranks_only)

    def _accuracy(self, predicted: Floats, part: Mask | None = None) -> Accuracy:
        part = np.ones(len(predicted), dtype=bool) if part is None else part
        return accuracy(predicted[part], self.labelled.label[part], self._graph[part], self.labelled.wirelength[part])


TABLES: Mapping[str, Callable[[Study], list[Row]]] = {
    "main": Study.main_rows,
    "left-out": Study.left_out_rows,
    "annotations": Study.annotation_rows,
}
"""Tables by name."""

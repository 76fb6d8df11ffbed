"""How accurate cost models of fabrics are on families of graphs that none of them was trained on.

Judged are checkpoints, by default the packaged one, and with ``--samples RUN`` models that are fitted to all placements
of a directory of ``dse fabric train``, and how trees and perceptrons together do on ever more of them, from the paper's
four kinds of blocks alone and from all kinds. RE: mean relative error of the throughput; ρ: Spearman's rank
correlation. All have 90 % intervals from a bootstrap over graphs. Placements: :mod:`benchmarks.fabric_unseen`.

Another model is judged in Python by what it predicts::

    labelled = unseen()                                                # of benchmarks.fabric_unseen
    print(judged(model.predict(labelled.examples), labelled).cells)    # of this module

With ``--annotate``, the cards of all checkpoints say first how well they did. With that or ``--record``, the packaged
student also places the graphs that are within its range, compared with the rules (:mod:`policies.fabric.placing`).

Target: RE ≤ .065, ρ ≥ .965, ρ within graphs ≥ .93.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from benchmarks.recording import Record, Results, parser_of
from policies.fabric.study.accuracy import relative_errors, spearman
from policies.fabric.study.intervals import Interval, correlation_interval, error_ratio, mean_interval

if TYPE_CHECKING:
    from dse.fabric.model import Pipeline
    from policies.fabric.model.examples import Model
    from policies.fabric.placing import Placing
    from policies.fabric.study.labelled import Labelled

Floats = npt.NDArray[np.float64]

SIZES = (500, 1_000, 2_000, 4_000, 8_000)
"""Placements that are learned from, as far as there are so many, and after them all."""

MODELS = ("ridge", "trees", "trees-all", "perceptrons", "stack")
"""What is fitted to samples by default."""

RECORD = Record(
    "fabric_ood",
    ("re", "rho", "within", "worst_family", "graphs", "placements", "known_kinds", "student", "student_graphs"),
    {
        "main": ("model", "learned from", "RE", "ρ", "ρ within graphs", "RE / that of the packaged model"),
        "families": ("family", "RE", "ρ", "ρ within graphs"),
        "curve": ("kinds", "placements", "graphs", "RE", "ρ", "ρ within graphs"),
    },
)


@dataclass(frozen=True)
class Verdict:
    """How well the throughput of placements is predicted.

    Attributes:
        error: RE.
        correlation: ρ over all placements.
        within: mean over graphs of ρ among the placements of one.
        families: RE, ρ and ρ within graphs of each family.
    """

    error: Interval
    correlation: Interval
    within: Interval
    families: Mapping[str, tuple[float, float, float]]

    def document(self) -> dict[str, object]:
        """The verdict as JSON types, for the card of a checkpoint: values with their intervals, and RE by family."""
        intervals = {"error": self.error, "correlation": self.correlation, "within": self.within}
        stated = {name: [each.value, each.low, each.high] for name, each in intervals.items()}
        return {**stated, "error_by_family": {name: error for name, (error, _, _) in self.families.items()}}

    @property
    def cells(self) -> tuple[str, str, str]:
        """RE and both ρ, each with its interval."""
        return shown(self.error, 4), shown(self.correlation), shown(self.within)


def judged(target: Floats, labelled: "Labelled", seed: int = 0) -> Verdict:
    """The verdict on targets that a model predicts of placements with their labels, [S].

    Raises:
        ValueError: graphs have different numbers of placements, so that they do not count alike.
    """
    predicted, label, graph = labelled.throughput_of(target), labelled.label, labelled.examples.graph
    numbers, sizes = np.unique(graph, return_counts=True)
    if len(set(sizes.tolist())) > 1:
        raise ValueError(f"all graphs must have as many placements, but have {sizes.tolist()}")
    own = [graph == number for number in numbers]
    errors = np.array([relative_errors(predicted[each], label[each]).mean() for each in own])
    within = np.array([spearman(predicted[each], label[each]) for each in own])
    kind = np.array([labelled.samples.graphs[number].kind for number in numbers.tolist()])
    families = {}
    for name in dict.fromkeys(kind.tolist()):
        all_of, part = labelled.kind == name, kind == name
        correlation = spearman(predicted[all_of], label[all_of])
        families[name] = (float(errors[part].mean()), correlation, float(within[part].mean()))
    correlation = correlation_interval(predicted, label, graph, seed)
    assert correlation is not None, "there are graphs enough for an interval"
    return Verdict(mean_interval(errors, seed), correlation, mean_interval(within, seed), families)


def shown(interval: Interval, digits: int = 3) -> str:
    """A share as ``.071 [.065, .078]``."""
    value, low, high = (number(each, digits) for each in (interval.value, interval.low, interval.high))
    return f"{value} [{low}, {high}]"


def number(value: float, digits: int = 3) -> str:
    """``.071``."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def checkpoint(folder: Path) -> tuple[str, "Model"]:
    """What a checkpoint has learned from, and its model."""
    from benchmarks.fabric_unseen import FABRIC
    from hardware.operator_slots import operator_slots
    from policies.fabric.data.collection import provenance_of
    from policies.fabric.model.checkpoint import load_for
    from policies.fabric.model.ensemble import Ensemble

    loaded = load_for(folder, provenance_of(FABRIC, operator_slots()))
    return f"{loaded.provenance['outcome']['placements']:,}", Ensemble.of(loaded.settings, loaded.tensors)


def learned_from(folder: Path) -> "Labelled":
    """All placements in the directory of a training."""
    from benchmarks.fabric_unseen import FABRIC
    from dse.run.tables import FOLDER
    from policies.fabric.data.tables import read_samples
    from policies.fabric.study.labelled import Labelled

    return Labelled(read_samples(folder / FOLDER), FABRIC)


def fitted(labelled: "Labelled", names: list[str]) -> Iterator[tuple[str, str, "Model"]]:
    """Models by name, with what they have learned from: all placements."""
    from policies.fabric.study.learners import Plain

    learners, kinds = Plain(0).learners, len(np.unique(labelled.kind))
    for name in names:
        yield name, f"{len(labelled.label):,} of {kinds} kinds", learners[name].fit(labelled.examples)


def curve(labelled: "Labelled") -> Iterator[tuple[int, int, int, "Model"]]:
    """Kinds, placements and graphs that a model has learned from, and the model: trees and perceptrons in equal parts.

    Graphs are drawn whole, fewer ones among more, from the blocks of the paper and from all kinds.
    """
    from policies.fabric.data.distribution import BLOCKS
    from policies.fabric.model.stack import StackLearner

    examples, blocks = labelled.examples, np.isin(labelled.kind, BLOCKS.kinds)
    for part in (blocks, np.ones_like(blocks)):
        graphs = np.random.default_rng(0).permutation(np.unique(examples.graph[part]))
        share = len(graphs) / part.sum()
        for placements in (*(size for size in SIZES if size < 0.95 * part.sum()), int(part.sum())):
            chosen = np.isin(examples.graph, graphs[: round(share * placements)])
            model = StackLearner().fit_evenly(examples.at(chosen))
            kinds, drawn = (len(np.unique(each[chosen])) for each in (labelled.kind, examples.graph))
            yield kinds, int(chosen.sum()), drawn, model


def placed_by_student(pipelines: "list[Pipeline]") -> "Placing":
    """How the packaged student places graphs that are within its range."""
    from benchmarks.fabric_unseen import FABRIC
    from dse.run.progress import never_stop, silent
    from hardware.operator_slots import operator_slots
    from policies.fabric.data.collection import provenance_of
    from policies.fabric.methods import SHIPPED
    from policies.fabric.placing import placing
    from policies.fabric.student_checkpoint import load_student

    trained = load_student(SHIPPED, provenance_of(FABRIC, operator_slots()))
    return placing(trained, pipelines, FABRIC, 0, never_stop, silent)


def main() -> None:
    """One line for each model, for each family that the packaged one predicts, and for each number of placements."""
    from benchmarks.fabric_unseen import unseen
    from policies.fabric.methods import SHIPPED
    from policies.fabric.model.checkpoint import COST
    from policies.fabric.student_checkpoint import STUDENT, STUDENTS

    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--checkpoint", type=Path, action="append", help="may be given several times")
    parser.add_argument("--samples", type=Path, help="fit models to the placements of this run of dse fabric train")
    parser.add_argument("--model", action="append", choices=MODELS, help="may be given several times; all by default")
    parser.add_argument("--annotate", action="store_true", help="write what checkpoints are worth into their cards")
    arguments = parser.parse_args()

    packaged = checkpoint(SHIPPED)
    folders = {"packaged": SHIPPED, **{str(folder): folder for folder in arguments.checkpoint or ()}}
    models = [("packaged", *packaged), *((name, *checkpoint(folders[name])) for name in list(folders)[1:])]
    seen = None if arguments.samples is None else learned_from(arguments.samples)
    if seen is not None:
        models += fitted(seen, arguments.model or list(MODELS))
    labelled = unseen(any(getattr(model, "needs_encodings", False) for _, _, model in models))
    label, graph = labelled.label, labelled.examples.graph
    base = packaged[1].predict(labelled.examples)
    for name, placements, model in models:
        target = model.predict(labelled.examples)
        verdict = judged(target, labelled)
        if arguments.annotate and name in folders:
            COST.annotate(folders[name], {"out_of_distribution": verdict.document()})
        ratio = error_ratio(labelled.throughput_of(target), labelled.throughput_of(base), label, graph)
        compared = "" if name == "packaged" else f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
        results.row("main", name, placements, *verdict.cells, compared)
    first = judged(base, labelled)
    for family, (error, correlation, within) in first.families.items():
        results.row("families", family, number(error), number(correlation), number(within))
    for kinds, placements, graphs, model in curve(seen) if seen is not None else ():
        verdict = judged(model.predict(labelled.examples), labelled)
        results.row("curve", kinds, placements, graphs, *verdict.cells)
    results.figure("re", shown(first.error))
    results.figure("rho", shown(first.correlation))
    results.figure("within", shown(first.within))
    worst = max(first.families, key=lambda family: first.families[family][0])
    results.figure("worst_family", f"{worst}, {number(first.families[worst][0])}")
    results.figure("graphs", len(np.unique(graph)))
    results.figure("placements", len(graph))
    outcome = COST.load(SHIPPED).provenance["outcome"]
    results.figure("known_kinds", number(outcome["validation"]["model"]["error"], 4))
    if arguments.annotate or arguments.record:
        placed = placed_by_student([graph.pipeline for graph in labelled.samples.graphs.values()])
        gain = placed.gain
        assert gain is not None, "there are graphs enough for an interval"
        results.figure("student", f"{100 * gain.value:+.1f} % [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]")
        results.figure("student_graphs", placed.graphs)
        if arguments.annotate:
            STUDENTS.annotate(SHIPPED / STUDENT, {"out_of_distribution": asdict(placed)})
    results.save(arguments.record)


if __name__ == "__main__":
    main()

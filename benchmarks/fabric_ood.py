"""How accurate cost models of fabrics are on families of graphs that none of them was trained on.

Judged are checkpoints, by default the packaged one, and with ``--samples RUN`` models that are fitted to all placements
of a directory of ``dse fabric train``. RE: mean relative error of the throughput; ρ: Spearman's rank correlation. All
have 90 % intervals from a bootstrap over graphs. Placements: :mod:`benchmarks.fabric_unseen`.

Another model is judged in Python by what it predicts::

    labelled = unseen()                                                # of benchmarks.fabric_unseen
    print(judged(model.predict(labelled.examples), labelled).cells)    # of this module

Target: RE ≤ .065, ρ ≥ .965, ρ within graphs ≥ .93.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from benchmarks.recording import Record, Results, parser_of
from policies.fabric.study.accuracy import relative_errors, spearman
from policies.fabric.study.intervals import Interval, correlation_interval, error_ratio, mean_interval

if TYPE_CHECKING:
    from policies.fabric.model.examples import Model
    from policies.fabric.study.labelled import Labelled

Floats = npt.NDArray[np.float64]

MODELS = ("ridge", "trees", "trees-all", "perceptrons", "stack")
"""What is fitted to samples by default."""

RECORD = Record(
    "fabric_ood",
    ("re", "rho", "within", "worst_family", "graphs", "placements"),
    {
        "main": ("model", "learned from", "RE", "ρ", "ρ within graphs", "RE / that of the packaged model"),
        "families": ("family", "RE", "ρ", "ρ within graphs"),
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


def fitted(folder: Path, names: list[str]) -> Iterator[tuple[str, str, "Model"]]:
    """Models by name, with what they have learned from: all placements in the directory of a training."""
    from benchmarks.fabric_unseen import FABRIC
    from dse.run.tables import FOLDER
    from policies.fabric.data.tables import read_samples
    from policies.fabric.study.labelled import Labelled
    from policies.fabric.study.learners import Plain

    samples = read_samples(folder / FOLDER)
    examples, learners = Labelled(samples, FABRIC).examples, Plain(0).learners
    kinds = len({record.kind for record in samples.graphs.values()})
    for name in names:
        yield name, f"{len(examples):,} of {kinds} kinds", learners[name].fit(examples)


def main() -> None:
    """One line for each model, and one for each family that the first one predicts."""
    from benchmarks.fabric_unseen import unseen
    from policies.fabric.methods import SHIPPED

    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--checkpoint", type=Path, action="append", help="may be given several times")
    parser.add_argument("--samples", type=Path, help="fit models to the placements of this run of dse fabric train")
    parser.add_argument("--model", action="append", choices=MODELS, help="may be given several times; all by default")
    arguments = parser.parse_args()

    packaged = checkpoint(SHIPPED)
    models = [("packaged", *packaged)]
    models += [(str(folder), *checkpoint(folder)) for folder in arguments.checkpoint or ()]
    if arguments.samples is not None:
        models += fitted(arguments.samples, arguments.model or list(MODELS))
    labelled = unseen(any(getattr(model, "needs_encodings", False) for _, _, model in models))
    label, graph = labelled.label, labelled.examples.graph
    base = packaged[1].predict(labelled.examples)
    for name, learned_from, model in models:
        target = model.predict(labelled.examples)
        verdict = judged(target, labelled)
        ratio = error_ratio(labelled.throughput_of(target), labelled.throughput_of(base), label, graph)
        compared = "" if name == "packaged" else f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
        results.row("main", name, learned_from, *verdict.cells, compared)
    first = judged(base, labelled)
    for family, (error, correlation, within) in first.families.items():
        results.row("families", family, number(error), number(correlation), number(within))
    results.figure("re", shown(first.error))
    results.figure("rho", shown(first.correlation))
    results.figure("within", shown(first.within))
    worst = max(first.families, key=lambda family: first.families[family][0])
    results.figure("worst_family", f"{worst}, {number(first.families[worst][0])}")
    results.figure("graphs", len(np.unique(graph)))
    results.figure("placements", len(graph))
    results.save(arguments.record)


if __name__ == "__main__":
    main()

"""Students and cost models on ``sn10``, judged by families of graphs that none has learned from.

Families of :mod:`benchmarks.fabric_unseen`, two graphs of each, one of them a training step, with sizes four times as
large; patches are left out, since those of 197 tokens fill no third of ``sn10``. Each is placed by a chain of 330 moves
a unit under the rules, and by one of 280 moves a unit, in about the same CPU time, that each student guides:

- *sn10*: that of ``--run``, of ``dse fabric train --fabric sn10``;
- *both*: of the placements of ``--run`` and of ``--samples``, a training on ``plasticine-8x16``, with the constants of
  the fabric as further features (:mod:`benchmarks.fabric_transfer`);
- *both, weak*: the same with a quarter of its weight in the cost.

Cost models predict the throughput of all these placements: the packaged one, that of ``--run``, and for *both* the
stack on all samples. Gains in throughput and errors have 90 % intervals from a bootstrap over graphs. What is placed is
in the journal and not placed again.

Target: a gain ≥ 0 %, its interval above −1 %.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.fabric_ood import judged
from benchmarks.fabric_transfer import PLASTICINE, constants_of, examples_on
from benchmarks.fabric_unseen import FAMILIES, drawn
from benchmarks.recording import Record, Results, parser_of
from dse.fabric.bound import bound
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Placement
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.search.student import Student
from dse.fabric.setting import Setting
from dse.run.journal import Journal
from dse.run.tables import FOLDER
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import provenance_of
from policies.fabric.data.records import GraphRecord, Sample, Samples
from policies.fabric.data.tables import read_samples
from policies.fabric.methods import SHIPPED
from policies.fabric.model.checkpoint import load_for
from policies.fabric.model.ensemble import Ensemble
from policies.fabric.model.examples import Model
from policies.fabric.model.stack import StackLearner
from policies.fabric.placing import RULE_MOVES
from policies.fabric.student import StudentExamples, StudentLearner
from policies.fabric.student_checkpoint import load_student
from policies.fabric.study.intervals import mean_interval
from policies.fabric.study.labelled import Labelled

Floats = npt.NDArray[np.float64]

HERE = fabric("sn10")

SCALE, GRAPHS = 4, 2
"""How much larger sizes are than on ``plasticine-8x16``, and graphs of each family."""

KINDS = tuple(family for family in FAMILIES if family != "patches")

RULES = "rules"

STUDENT_MOVES = 280
"""Moves for each unit where rules alone make :data:`RULE_MOVES`: on ``sn10`` a move with a student takes 1.2 times as
long."""

WEAK = 0.25
"""Share of its weight that a weak student has."""

FIGURES = {"sn10": "own", "both": "both", "both, weak": "weak"}
"""Of the gain of each student."""

RECORD = Record(
    "fabric_sn10",
    ("graphs", "learned_graphs", "learned", *FIGURES.values()),
    {
        "placing": ("student", "gain over the rules", "better on", "share of the bound", "CPU s for each graph"),
        "accuracy": ("model", "learned from", "RE", "ρ", "ρ within graphs"),
    },
)


@dataclass(frozen=True)
class Placer:
    """Rules, and the student that corrects them, if one does."""

    rules: Setting
    student: Student | None

    def __call__(self, graph: GraphRecord, seed: int) -> Placement:
        """The placement of a chain."""
        moves = (STUDENT_MOVES if self.student else RULE_MOVES) * len(graph.pipeline.units)
        schedule = self.rules.schedule(AnnealSettings(moves))
        annealing = Annealing(graph.pipeline, HERE, self.rules.weights, schedule, student=self.student)
        return annealing(Chain(seed)).placement


def placers(run: Path, own: Samples, other: Samples) -> Mapping[str, Placer]:
    """By name; the rules are those that students correct."""
    trained = load_student(run, provenance_of(HERE, operator_slots()))
    parts = [examples_on(PLASTICINE, other), examples_on(HERE, renumbered(own, other))]
    columns = zip(*((each.features, each.target, each.graph) for each in parts), strict=True)
    networks = StudentLearner().networks(StudentExamples(*(np.concatenate(each) for each in columns)))
    weight = float(trained.rules.weights.array.sum())
    both, weak = (networks.student(share * weight, constants_of(HERE)) for share in (1, WEAK))
    return {
        RULES: Placer(trained.rules, None),
        "sn10": Placer(trained.rules, trained.student),
        "both": Placer(trained.rules, both),
        "both, weak": Placer(trained.rules, weak),
    }


def renumbered(samples: Samples, others: Samples) -> Samples:
    """Samples whose graphs have other numbers than those of ``others``."""
    first = 1 + max(others.graphs)
    graphs = {first + number: record for number, record in samples.graphs.items()}
    placed = tuple(replace(each, graph=first + each.graph) for each in samples.samples)
    return Samples(graphs, placed, samples.provenance)


def models(run: Path, own: Samples, other: Samples) -> Iterator[tuple[str, str, Model]]:
    """By name, with the placements that each has learned from."""
    slots = operator_slots()
    for name, folder, where in (("packaged", SHIPPED, PLASTICINE), ("sn10", run, HERE)):
        loaded = load_for(folder, provenance_of(where, slots))
        yield name, f"{loaded.provenance['outcome']['placements']:,}", Ensemble.of(loaded.settings, loaded.tensors)
    examples = Labelled(other, PLASTICINE).examples.followed_by(Labelled(renumbered(own, other), HERE).examples)
    yield "both", f"{len(examples):,}", StackLearner().fit_evenly(examples)


def placed(journal: Journal, placer: Placer, name: str, graph: GraphRecord) -> Sample:
    """A placement with its simulated slots; those of the journal are taken from there."""
    key = f"{graph.number} {name}"
    if key not in journal:
        begun = time.process_time()
        placement = placer(graph, graph.number)
        cpu_s = time.process_time() - begun
        slots = throughput(Simulator(graph.pipeline, HERE), placement).interval_slots
        settings = {"name": name, "cpu_s": cpu_s}
        sample = Sample(graph.number, 0, graph.number, placement, slots, graph.pipeline.ideal_slots, 0.0, settings)
        journal.append(key, sample.document())
        print(key, slots, f"{cpu_s:.1f} CPU s", flush=True)
    return Sample.from_document(journal[key])


def tabulate_placing(results: Results, graphs: Sequence[GraphRecord], by_name: Mapping[str, list[Sample]]) -> None:
    """A row for each student; a deadlock is a throughput of 0."""
    slots = np.array([bound(graph.pipeline, HERE).slots for graph in graphs])
    shares = {
        name: np.array([0.0 if each.interval_slots is None else 1 / each.interval_slots for each in samples]) * slots
        for name, samples in by_name.items()
    }
    for name, samples in by_name.items():
        gains = shares[name] / shares[RULES] - 1
        gain = "" if name == RULES else percent(gains)
        better = "" if name == RULES else f"{(gains > 0).sum()} of {len(graphs)}"
        cpu_s = float(np.mean([each.placer["cpu_s"] for each in samples]))
        results.row("placing", name, gain, better, f"{shares[name].mean():.3f}", f"{cpu_s:.1f}")
        if name != RULES:
            results.figure(FIGURES[name], gain)


def percent(gains: Floats) -> str:
    """A mean gain with its interval."""
    interval = mean_interval(gains, 0)
    value, low, high = (f"{100 * each:+.1f}" for each in (interval.value, interval.low, interval.high))
    return f"{value} % [{low}, {high}]"


def main() -> None:
    """One row for each student, and for each cost model."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--run", type=Path, required=True, help="a run of dse fabric train --fabric sn10")
    parser.add_argument("--samples", type=Path, required=True, help="a run of dse fabric train")
    parser.add_argument("--journal", type=Path, required=True, help="file of what was placed; continued")
    arguments = parser.parse_args()
    own, other = (read_samples(folder / FOLDER) for folder in (arguments.run, arguments.samples))
    graphs = [drawn(family, number, HERE, SCALE) for family in KINDS for number in range(GRAPHS)]
    with Journal(arguments.journal) as journal:
        by_name = {
            name: [placed(journal, placer, name, graph) for graph in graphs]
            for name, placer in placers(arguments.run, own, other).items()
        }
    tabulate_placing(results, graphs, by_name)
    running = [
        number
        for number, samples in enumerate(zip(*by_name.values(), strict=True))
        if all(each.interval_slots is not None for each in samples)
    ]
    samples = tuple(samples[number] for number in running for samples in by_name.values())
    labelled = Labelled(Samples({graph.number: graph for graph in graphs}, samples, own.provenance), HERE)
    for name, learned, model in models(arguments.run, own, other):
        results.row("accuracy", name, learned, *judged(model.predict(labelled.examples), labelled).cells)
    results.figure("graphs", len(graphs))
    results.figure("learned_graphs", len(own.graphs))
    results.figure("learned", len(own.samples))
    results.save(arguments.record)


if __name__ == "__main__":
    main()

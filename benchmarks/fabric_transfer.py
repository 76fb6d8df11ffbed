"""Students on fabrics that they have not learned from.

Each row: a chain of 220 moves a unit that a student guides, compared with one of 330 moves a unit under the rules that
it corrects, from the same seed: about equal CPU time (:mod:`policies.fabric.placing`). Gains in throughput are means
over graphs with 90 % intervals from a bootstrap over graphs; graphs beyond the range of what a student has learned from
are placed as well. The rules were tuned on ``plasticine-8x16``.

Two students: the packaged one, which has learned from ``plasticine-8x16`` alone; and one that has learned from the
variants of :data:`LEARNED` as well, with the constants of the fabric as further features (:func:`constants_of`).
Neither has seen the fabrics of :data:`UNSEEN`.

Target: a gain ≥ 0 %, its interval above −1 %.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.recording import Record, Results, parser_of
from dse.fabric.model import Pipeline
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop, silent
from dse.run.tables import FOLDER
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, provenance_of, samples_in
from policies.fabric.data.distribution import ALL_KINDS
from policies.fabric.data.placers import StudentAnnealer
from policies.fabric.data.records import Samples
from policies.fabric.data.tables import read_samples
from policies.fabric.methods import SHIPPED
from policies.fabric.placing import placing
from policies.fabric.student import StudentExamples, StudentLearner, student_examples
from policies.fabric.student_checkpoint import TrainedStudent, load_student

Floats = npt.NDArray[np.float64]

PLASTICINE = fabric("plasticine-8x16")

LEARNED = (
    replace(PLASTICINE, name="two tracks", tracks=2),
    replace(PLASTICINE, name="small buffers", buffer_flits=6, max_flow_flits=3),
    replace(PLASTICINE, name="slow hops", hop_slots=3, switch_slots=2),
    replace(PLASTICINE, name="6 x 12", rows=6, columns=12),
    replace(PLASTICINE, name="16 x 20", rows=16, columns=20),
)
"""Fabrics that the second student has learned from, besides ``plasticine-8x16``."""

UNSEEN = (
    replace(PLASTICINE, name="12 x 14, two tracks", rows=12, columns=14, tracks=2),
    replace(PLASTICINE, name="8 x 10, deep buffers", columns=10, buffer_flits=24, max_flow_flits=12),
    replace(PLASTICINE, name="10 x 16, fast hops", rows=10, hop_slots=1),
    fabric("sn10"),
)
"""Fabrics that neither has learned from."""

FIRST_GRAPH = 3_000_000
"""Of those that are placed: nobody learns from them."""

RECORD = Record("fabric_transfer", (), {"main": ("fabric", "student", "graphs", "gain over the rules")})


def constants_of(here: Fabric) -> Floats:
    """What a student is told of a fabric, logarithms, [C]: cells, tracks, buffers, and slots of hops and switches."""
    numbers = (here.grid.cells, here.tracks, here.buffer_flits, here.max_flow_flits, here.hop_slots, here.switch_slots)
    return np.log(numbers)


def taught(samples: Path, folder: Path, graphs: int, packaged: TrainedStudent) -> Callable[[Fabric], TrainedStudent]:
    """The student for a fabric, of the placements in a directory of ``dse fabric train`` and of others on
    :data:`LEARNED`.

    Those are placed by annealers that follow the packaged student, and kept in ``folder``.
    """
    parts = [examples_on(PLASTICINE, read_samples(samples / FOLDER))]
    placer = StudentAnnealer(packaged.student, packaged.rules.weights)
    for number, here in enumerate(LEARNED):
        with Journal(folder / f"{here.name}.jsonl") as journal:
            first = 1_000 * (number + 1) * ALL_KINDS.in_a_row
            pieces = [Piece(1, first + graph, 5, seed=0) for graph in range(graphs)]
            collector = Collector(here, operator_slots(), placer, ALL_KINDS)
            collect(journal, collector, pieces, InProcessExecutor())
            parts.append(examples_on(here, samples_in(journal)))
    columns = zip(*((each.features, each.target, each.graph) for each in parts), strict=True)
    examples = StudentExamples(*(np.concatenate(each) for each in columns))
    networks, weight = StudentLearner().networks(examples), float(packaged.rules.weights.array.sum())

    def student_for(here: Fabric) -> TrainedStudent:
        return TrainedStudent.of(networks.student(weight, constants_of(here)), packaged.rules, examples)

    return student_for


def examples_on(here: Fabric, samples: Samples) -> StudentExamples:
    """Placements on a fabric, with its constants."""
    examples = student_examples(samples, here)
    constants = np.broadcast_to(constants_of(here), (len(examples.target), len(constants_of(here))))
    return replace(examples, features=np.hstack([examples.features, constants]))


def everywhere(trained: TrainedStudent) -> TrainedStudent:
    """The same student without a range, so that no graph is left out."""
    return replace(trained, low=np.full_like(trained.low, -np.inf), high=np.full_like(trained.high, np.inf))


def graphs_of(here: Fabric, many: int) -> list[Pipeline]:
    """Pipelines of graphs of all kinds on a fabric."""
    return [ALL_KINDS(FIRST_GRAPH + number, here, operator_slots()).pipeline for number in range(many)]


def gains(here: Fabric, students: dict[str, TrainedStudent], many: int) -> Iterator[tuple[str, int, str]]:
    """By student: graphs, and the gain on them."""
    pipelines = graphs_of(here, many)
    for name, trained in students.items():
        placed = placing(everywhere(trained), pipelines, here, 0, never_stop, silent)
        gain = placed.gain
        shown = "–" if gain is None else f"{100 * gain.value:+.1f} % [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        yield name, placed.graphs, shown


def main() -> None:
    """One line for each fabric and student."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--samples", type=Path, required=True, help="a run of dse fabric train")
    parser.add_argument("--folder", type=Path, required=True, help="where placements on other fabrics are kept")
    parser.add_argument("--learned", type=int, default=100, help="graphs on each fabric to learn from")
    parser.add_argument("--graphs", type=int, default=40, help="graphs on each fabric to place")
    arguments = parser.parse_args()
    packaged = load_student(SHIPPED, provenance_of(PLASTICINE, operator_slots()))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    several = taught(arguments.samples, arguments.folder, arguments.learned, packaged)
    for here in UNSEEN:
        students = {"packaged": packaged, "of six fabrics": several(here)}
        begun = time.process_time()
        for name, graphs, gain in gains(here, students, arguments.graphs):
            results.row("main", here.name, name, graphs, gain)
        print(f"{here.name}: {time.process_time() - begun:.0f} CPU s", flush=True)
    results.save(arguments.record)


if __name__ == "__main__":
    main()

"""Rounds of collection: annealers with random rules first, then annealers that follow what was collected before."""

from dataclasses import dataclass, replace

from dse.fabric.setting import tuned_for
from dse.run.executor import Executor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots
from policies.fabric.data.collection import Collector, Piece, begin, collect, samples_in
from policies.fabric.data.distribution import BLOCKS, Distribution
from policies.fabric.data.placers import Placer, RandomAnnealer, StudentAnnealer
from policies.fabric.data.records import Samples
from policies.fabric.student import StudentLearner, student_examples


def round_of(graph: int, rounds: int, in_a_row: int) -> int:
    """The round in which a graph is placed: every other graph in the first one, and the rest in ``rounds`` further ones
    by turns.

    Kinds of graphs and passes repeat with their number, after ``in_a_row`` of them. Graphs of the first round are even
    ones of one such row and odd ones of the next, so that all rounds place all kinds.
    """
    row, place = divmod(graph, in_a_row)
    if rounds == 0 or (row + place) % 2 == 0:
        return 0
    return 1 + (row // 2 + place) % rounds


@dataclass(frozen=True)
class Rounds:
    """What is collected.

    Attributes:
        fabric, slots: of all placements.
        graphs: how many.
        placements: of each graph.
        rounds: after the first one.
        seed: of everything.
        distribution: of the graphs.
    """

    fabric: Fabric
    slots: OperatorSlots
    graphs: int
    placements: int
    rounds: int
    seed: int
    distribution: Distribution = BLOCKS

    def collect(self, journal: Journal, executor: Executor, progress: ProgressCallback, stop: StopSignal) -> Samples:
        """All samples; those that the journal has are not collected again.

        Raises:
            InputError: as :func:`policies.fabric.data.collection.collect`.
            StoppedError: ``stop`` gave a reason; what is finished is in the journal.
        """
        begin(journal, self.fabric, self.slots, self.distribution)
        for number in range(self.rounds + 1):
            pieces = [
                Piece(number, graph, self.placements, self.seed)
                for graph in range(self.graphs)
                if round_of(graph, self.rounds, self.distribution.in_a_row) == number
            ]
            if all(piece.key in journal for piece in pieces):
                continue
            placer: Placer = RandomAnnealer()
            if number > 0:
                progress(f"student of round {number} taught", 0, 1)
                placer = self._follower(samples_in(journal), number, stop)
            collector = Collector(self.fabric, self.slots, placer, self.distribution)
            collect(journal, collector, pieces, executor, stop, progress)
        return samples_in(journal)

    def _follower(self, samples: Samples, number: int, stop: StopSignal) -> StudentAnnealer:
        """Annealers that follow a student of the rounds before this one."""
        earlier = replace(samples, samples=tuple(each for each in samples.samples if each.round < number))
        rules = tuned_for(self.fabric).setting.weights
        learner = StudentLearner(seed=self.seed, stop=stop)
        return StudentAnnealer(learner.fit(student_examples(earlier, self.fabric), float(rules.array.sum())), rules)

"""How long the turns of a cut graph take, and the least that they could.

In a turn the fabric is configured, weights and sums are loaded, the batch passes from an empty pipeline until its last
sample departs, and sums go back. Turns do not overlap: the fabric holds one configuration at a time, and what a turn
reads, the turns before it have written for the whole batch.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dse.fabric.batch_bound import batch_bound_slots
from dse.fabric.figures import PlacedPiece
from dse.fabric.problem import FabricProblem, Turn
from dse.fabric.search.demand import Demand
from dse.fabric.search.expansion import available_units
from hardware.fabrics import Fabric


@dataclass(frozen=True)
class TurnTime:
    """Seconds of a turn.

    Attributes:
        configuration_s: of the fabric.
        load_s: of weights and sums from and to the memory off chip.
        run_s: from the first flit to the departure of the last sample.
    """

    configuration_s: float
    load_s: float
    run_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.configuration_s + self.load_s + self.run_s


def turn_times(problem: FabricProblem, pieces: Sequence[PlacedPiece]) -> list[TurnTime] | None:
    """Simulated, of every turn, in order; None where a piece is in a deadlock."""
    with ThreadPoolExecutor() as threads:  # the simulator holds no lock
        run_s = list(threads.map(lambda piece: piece.latency_s(problem.batch), pieces))
    times = []
    for turn in problem.turns:
        own = run_s[turn.piece]
        if own is None:
            return None
        times.append(_time(problem.fabric, turn, own))
    return times


def min_times(problem: FabricProblem) -> list[TurnTime]:
    """What each turn takes at least, however its piece is placed and routed.

    No placement of these pieces is faster than the sum: turns do not overlap, configuration and loads do not depend on
    the placement, and :func:`dse.fabric.batch_bound.batch_bound_slots` is a bound for each piece. Another cut could be
    faster; :func:`min_batch_s` holds for every cut.
    """
    fabric = problem.fabric
    slots = [batch_bound_slots(piece.pipeline, fabric, problem.batch) for piece in problem.pieces]
    return [_time(fabric, turn, slots[turn.piece] * fabric.slot_s) for turn in problem.turns]


def _time(fabric: Fabric, turn: Turn, run_s: float) -> TurnTime:
    return TurnTime(fabric.configuration_s, turn.load_slots * fabric.slot_s, run_s)


def min_batch_s(problem: FabricProblem) -> float:
    """Seconds for a batch that no cut, no division of operators, no placement and no routes can do with less of.

    The fabric is configured once at least, and every weight is loaded once at least, over all channels at best, before
    what reads it can begin; no turn's loads overlap its work. The work of every operator is done once for every sample,
    and dividing it rounds up only; at best all compute units that may be used share it evenly.
    """
    fabric, demand = problem.fabric, Demand(problem.graph, problem.fabric, problem.slots)
    units = available_units(fabric, problem.fill)["compute"]
    work_slots = sum(splitting.options[0][1] for splitting in demand.splittings if splitting)
    load_slots = min_load_slots(demand)
    return fabric.configuration_s + (load_slots + problem.batch * work_slots / units) * fabric.slot_s


def min_load_slots(demand: Demand) -> float:
    """Slots in which all channels bring all weights, and bring and take all sums."""
    flits = sum(
        splitting.weight_flits * (2 if demand.adds_to_sum(position) else 1)
        for position, splitting in enumerate(demand.splittings)
        if splitting
    )
    return flits * demand.fabric.channel_slots / demand.fabric.channel_count


def shares(times: Sequence[TurnTime], turns: Sequence[Turn]) -> Iterator[tuple[int, int, float]]:
    """(piece, how often it is on the fabric, its share of all time), the largest share first."""
    total_s = sum(time.total_s for time in times)
    of_piece: dict[int, list[float]] = {}
    for turn, time in zip(turns, times, strict=True):
        of_piece.setdefault(turn.piece, []).append(time.total_s)
    for piece, own in sorted(of_piece.items(), key=lambda each: -sum(each[1])):
        yield piece, len(own), sum(own) / total_s

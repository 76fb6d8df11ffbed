"""The options of ``dse fabric place``, and the problem that they pose."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from dse.fabric.methods import AUTO, COSTS, LEARNED, LEARNED_SIMULATED, REFINED_COSTS, SIMULATOR
from dse.fabric.problem import CutMode, FabricProblem
from dse.fabric.search.routing import Routing
from dse.fabric.setting import tuned_for
from dse.graph.dataflow.graph import GraphPass
from dse.run.options import Option, Options
from dse.sources.dataflow import dataflow_of, resolve_dataflow
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric
from hardware.inputs import InputError, choose, fail
from hardware.operator_slots import operator_slots

_MAX_BATCH = 4096

CHAINS, ROUNDS = 4, 12

ROUND_MOVES = 8_000
"""Moves of a chain for each round: rounds take about a third of the time of chains then, and more or fewer were worse
in five seconds on graphs of families that nothing was trained on.
"""

SPREAD_MOVES = 200_000
"""Moves of a search from which several chains and rounds of simulated changes are better than one chain of all moves.

On graphs of families that nothing was trained on, at equal CPU time, one chain was ahead with 36,000 moves, as good as
four without rounds with 126,000 and behind with three times as many (``benchmarks.fabric_placement --families``).
"""

_COSTS = (*COSTS, LEARNED, LEARNED_SIMULATED)


class Effort(NamedTuple):
    """How much is searched: chains, moves of each, and rounds of refinement after them."""

    chains: int
    moves: int
    rounds: int


@dataclass(frozen=True)
class FabricOptions(Options):
    """The options of ``dse fabric place``."""

    COMMAND: ClassVar[str] = "fabric place"

    graph: Annotated[Any, Option(metavar="GRAPH", positional=True, is_source=True)]
    fabric: Annotated[str, Option("Fabric: a name from `dse specs`, or a file.", metavar="SPEC")] = "sn10"
    pass_: Annotated[GraphPass, Option("Forward pass only, or a training step.")] = "forward"
    cost: Annotated[
        str,
        Option(
            f"Cost of placements during the search: {', '.join(_COSTS)}; {AUTO}: {LEARNED_SIMULATED} if a model for "
            f"this fabric is available and places at least as well, otherwise (and with --tuned) {SIMULATOR}.",
            metavar="NAME",
        ),
    ] = AUTO
    tuned: Annotated[
        str | None,
        Option(
            "Rules from `dse fabric tune` (default: the ones in the package, if they were tuned on this fabric).",
            metavar="FILE",
            group="Learned and tuned costs",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        Option(
            "Learned costs from `dse fabric train` (default: the ones in the package, if trained on this fabric).",
            metavar="DIR",
            belongs_to=("cost", AUTO, LEARNED_SIMULATED, LEARNED),
            group="Learned and tuned costs",
        ),
    ] = None
    fill: Annotated[
        float, Option("Maximum share of compute and memory units to use.", min=0.01, max=1.0, group="Mapping")
    ] = 1.0
    cut: Annotated[
        CutMode,
        Option("auto: cut a graph that does not fit into pieces that run in turn; never: report the missing units."),
    ] = "auto"
    microbatch: Annotated[
        int | None, Option("Model inputs per sample of the fabric (default: 1).", min=1, max=10**6)
    ] = None
    sequence: Annotated[
        int | None, Option("Tokens per input, for models with variable sequence length.", min=1, max=10**7)
    ] = None
    slots: Annotated[
        str, Option("Table of slots per operator on a compute unit: a name or a file.", metavar="SPEC", group="Mapping")
    ] = "streaming"
    routing: Annotated[
        Routing, Option("Route along rows first, along columns first, or by congestion.", group="Search")
    ] = "congestion"
    chains: Annotated[
        int | None,
        Option(
            f"Independent annealing chains (default: {CHAINS}, or one chain with all moves if the simulator is the "
            f"cost and all chains together make fewer than {SPREAD_MOVES:,} moves).",
            min=1,
            max=10_000,
            group="Search",
        ),
    ] = None
    moves: Annotated[int, Option("Moves per chain.", min=1, max=10**12, group="Search")] = 100_000
    rounds: Annotated[
        int | None,
        Option(
            f"With --cost {SIMULATOR} or {LEARNED_SIMULATED}: refinement rounds after annealing; each round "
            "simulates one small change of the fastest placement per chain (default: one for every "
            f"{ROUND_MOVES:,} moves of a chain, at least {ROUNDS}; 0 for a single chain of fewer than "
            f"{SPREAD_MOVES:,} moves).",
            min=0,
            max=10_000,
            belongs_to=("cost", AUTO, SIMULATOR, LEARNED_SIMULATED),
            group="Search",
        ),
    ] = None
    batch: Annotated[
        int,
        Option(
            "Samples per batch, whose latency is shown; each piece of a cut graph runs a whole batch in turn.",
            min=1,
            max=_MAX_BATCH,
        ),
    ] = 16

    @property
    def chosen_cost(self) -> str:
        """The cost by name. The floors above put their own in the place of :data:`AUTO` before a problem is posed."""
        return SIMULATOR if self.cost == AUTO else self.cost

    @property
    def effort(self) -> Effort:
        """The chains, their moves, and the rounds after them."""
        together = CHAINS * self.moves
        if self.chains is None and together < SPREAD_MOVES and self.chosen_cost in REFINED_COSTS:
            return Effort(1, together, self.rounds or 0)
        chains = CHAINS if self.chains is None else self.chains
        brief = chains == 1 and self.moves < SPREAD_MOVES
        rounds = 0 if brief else max(ROUNDS, self.moves // ROUND_MOVES)
        return Effort(chains, self.moves, rounds if self.rounds is None else self.rounds)


_TUNED_COSTS = ("tuned", SIMULATOR)


def problem_of(options: FabricOptions) -> FabricProblem:
    """The problem that the options pose.

    Raises:
        InputError: a graph, fabric or table that is malformed; an operator without an entry in the table; a fabric of
            whose units none has the capacity for a flit.
    """
    choose(options.command(), "--cost", options.cost, (*_COSTS, AUTO), "cost")
    chosen = fabric(options.fabric)
    _require_tuned(options, chosen)
    table = operator_slots(options.slots)
    graph = dataflow_of(resolve_dataflow(options.graph), options.pass_, options.microbatch, options.sequence)
    table.require(operator.kind for operator in graph.operators if operator.kind not in ("input", "output"))
    try:
        return FabricProblem.of(graph, chosen, table, options.fill, options.batch, options.cut)
    except InputError:
        raise
    except ValueError as error:
        raise fail(graph.name, "", "", f"cannot be spread over the units of {chosen.name}: {error}") from error


def _require_tuned(options: FabricOptions, fabric: Fabric) -> None:
    """Refuse a file of tuned rules that cannot be used."""
    if options.tuned is None:
        return
    if options.chosen_cost not in _TUNED_COSTS:
        rule = f"applies only to --cost {' or '.join(_TUNED_COSTS)}, but --cost is {options.cost}"
        raise fail(options.command(), "--tuned", options.tuned, rule)
    if options.checkpoint is not None:
        rule = "must not be given together with --tuned, which is for a different cost"
        raise fail(options.command(), "--checkpoint", options.checkpoint, rule)
    tuned_for(fabric, options.tuned)

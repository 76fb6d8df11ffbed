"""The options of ``dse fabric tune``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from dse.fabric.cases import require_block_cases
from dse.fabric.tuning.plan import TuningPlan
from dse.run.options import Option, Options
from hardware.fabric_specs import fabric
from hardware.inputs import fail
from hardware.operator_slots import operator_slots

_SEARCH = "Graphs and trials"
"""A group of options under ``--help``."""


@dataclass(frozen=True)
class TuningOptions(Options):
    """The options of ``dse fabric tune``."""

    COMMAND: ClassVar[str] = "fabric tune"

    fabric: Annotated[str, Option("Fabric: a name from `dse specs`, or a file.", metavar="SPEC")] = "plasticine-8x16"
    simulations: Annotated[int, Option("Total simulations, over all stages.", min=1, max=10**7)] = 5878
    first_graph: Annotated[int, Option("Seed of the first training graph.", min=0, max=2**31, group=_SEARCH)] = 20_000
    graphs: Annotated[int, Option("Training graphs.", min=1, max=10**5)] = 64
    graphs_per_trial: Annotated[int, Option("Graphs per trial.", min=1, max=10**5, group=_SEARCH)] = 16
    finalists: Annotated[
        int,
        Option(
            "Best trials, including the untuned setting, to evaluate on all graphs.", min=1, max=10**4, group=_SEARCH
        ),
    ] = 8
    moves_per_unit: Annotated[int, Option("Moves per chain and pipeline unit.", min=1, max=10**9, group=_SEARCH)] = 1000
    slots: Annotated[
        str, Option("Table of slots per operator on a compute unit: a name or a file.", metavar="SPEC", group=_SEARCH)
    ] = "streaming"

    def plan(self, seed: int) -> TuningPlan:
        """The run that the options describe.

        Raises:
            InputError: a malformed fabric or table, one with which no training graphs can be drawn, or options that
                contradict each other.
        """
        require_block_cases(fabric(self.fabric), operator_slots(self.slots))
        try:
            return TuningPlan(
                fabric=self.fabric,
                simulations=self.simulations,
                first_graph=self.first_graph,
                graphs=self.graphs,
                graphs_per_trial=self.graphs_per_trial,
                finalists=self.finalists,
                moves_per_unit=self.moves_per_unit,
                seed=seed,
                slots=self.slots,
            )
        except ValueError as error:
            raise fail(self.command(), "", "", str(error)) from error

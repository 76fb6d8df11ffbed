"""What a user can ask of ``dse wafer``."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from dse.run.options import Option, Options
from dse.wafer.files.formats import MAX_TILES, problem_of
from dse.wafer.files.kgraph import HEADER_KEYS, TITLE_KEY, KernelGraph
from dse.wafer.kernels import read_library
from dse.wafer.problem import WaferProblem
from dse.wafer.sources import graph_of, name_of
from dse.wafer.sweep.axes import KEYS
from hardware.inputs import InputError

Method = Literal["portfolio", "rows", "slicing-tree", "gigaplacer"]

MOVES = 8_000_000
"""Annealing moves by default: half a minute for 100 kernels."""

SWEEP_MOVES = 1_000_000
"""The same, for each point of a sweep."""


@dataclass(frozen=True)
class WaferOptions(Options):
    """The options of ``dse wafer``."""

    COMMAND: ClassVar[str] = "wafer"

    case: Annotated[Any, Option(metavar="CASE", positional=True, is_source=True)]
    kernels: Annotated[str | None, Option("Additional kernel types (YAML, dse.kernels/1).", metavar="FILE")] = None
    method: Annotated[
        Method,
        Option(
            "Search method. gigaplacer: the algorithm of the GigaPlacer paper (Li et al., ASP-DAC 2021) as printed; "
            "--moves and --seed have no effect on it."
        ),
    ] = "portfolio"
    moves: Annotated[
        int | None,
        Option(f"Annealing moves (default: {MOVES:,}, or {SWEEP_MOVES:,} per point of a sweep).", min=0, max=10**12),
    ] = None
    sweep: Annotated[
        tuple[str, ...],
        Option(
            "Solve for several wafers or weights, and report the Pareto front of cost, tiles and memory. "
            f"KEY: {', '.join(KEYS)}; a KEY without values is swept from half to twice its value in CASE.",
            metavar="KEY[=V,V|=LOW:HIGH:STEP],…",
        ),
    ] = ()
    width: Annotated[
        int | None,
        Option(
            "Width of the wafer in tiles (default: from CASE, or 633).", min=1, max=MAX_TILES, group="Wafer and weights"
        ),
    ] = None
    height: Annotated[
        int | None,
        Option(
            "Height of the wafer in tiles (default: from CASE, or 633).",
            min=1,
            max=MAX_TILES,
            group="Wafer and weights",
        ),
    ] = None
    memlimit: Annotated[
        int | None,
        Option("Memory per tile in 2-byte words (default: from CASE, or 24576).", min=1, group="Wafer and weights"),
    ] = None
    wdeltat: Annotated[
        float | None, Option("Weight of the time (default: from CASE, or 1).", min=0, group="Wafer and weights")
    ] = None
    wlength: Annotated[
        float | None, Option("Weight of the distance (default: from CASE, or 1).", min=0, group="Wafer and weights")
    ] = None
    wadapter: Annotated[
        float | None, Option("Weight of the adapters (default: from CASE, or 0).", min=0, group="Wafer and weights")
    ] = None

    @property
    def annealing_moves(self) -> int:
        """Moves of annealing in all; of a sweep at each point."""
        if self.moves is not None:
            return self.moves
        return SWEEP_MOVES if self.sweep else MOVES

    def document(self) -> dict[str, Any]:
        """The options as JSON types, with the moves that are made."""
        return super().document() | {"moves": self.annealing_moves}

    def graph(self) -> KernelGraph:
        """The kernel graph that the options name, with their header.

        Raises:
            InputError: the graph or the kernel types are malformed, or a network that has no kernels.
        """
        graph = graph_of(self.case, read_library(self.kernels))
        given = self._header()
        # Of what is given there is no line in the file.
        lines = {key: line for key, line in graph.header_lines.items() if key not in given}
        return replace(graph, header={**graph.header, **given}, header_lines=lines)

    def problem(self) -> WaferProblem:
        """The problem that the options pose.

        Raises:
            InputError: as :meth:`graph`, or a wafer or weights that cannot be.
        """
        return self.problem_of(self.graph())

    def problem_of(self, graph: KernelGraph) -> WaferProblem:
        """The problem that the options pose, of their :meth:`graph`.

        Raises:
            InputError: a wafer or weights that cannot be; of what the options say themselves, it names the option.
        """
        try:
            return problem_of(graph, self.case, read_library(self.kernels), name_of(self.case))
        except InputError as error:
            options = {f"header.{key}": f"--{key}" for key in self._header()}
            faults = (
                replace(each, file="dse wafer", key=options[each.key]) if each.key in options else each
                for each in error.faults
            )
            raise InputError(faults) from error

    def _header(self) -> dict[str, str]:
        given = {key: getattr(self, key) for key in HEADER_KEYS if key != TITLE_KEY}
        return {key: f"{value:.15g}" for key, value in given.items() if value is not None}

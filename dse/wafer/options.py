"""What a user can ask of ``dse wafer``."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dse.results.settings import STRICT, options_of
from dse.wafer.files.formats import problem_of
from dse.wafer.files.kgraph import HEADER_KEYS, TITLE_KEY, KernelGraph
from dse.wafer.kernels import read_library
from dse.wafer.problem import WaferProblem
from dse.wafer.sources import graph_of, name_of
from hardware.inputs import InputError

MOVES = 8_000_000
"""Moves of annealing in all, where nothing else is asked: half a minute for 100 kernels."""

SWEEP_MOVES = 1_000_000
"""The same, for each point of a sweep."""


@dataclass(frozen=True)
class WaferOptions:
    """The options of ``dse wafer``.

    Attributes:
        case: a ``.kgraph`` file, or what else :func:`dse.wafer.sources.graph_of` reads.
        kernels: a file of more kernel types (``dse.kernels/1``), or None.
        method: which of :data:`dse.wafer.methods.METHODS`.
        moves: of annealing, in all; of a sweep at each point. None for the default, :attr:`annealing_moves`.
        sweep: what is swept (:func:`dse.wafer.sweep.axes.axes_of`); nothing for a single placement.
        width, height, memlimit, wdeltat, wlength, wadapter: what stands in the header of the case; None leaves it.
    """

    __pydantic_config__ = STRICT

    case: str
    kernels: str | None = None
    method: str = "portfolio"
    moves: int | None = None
    sweep: tuple[str, ...] = ()
    width: int | None = None
    height: int | None = None
    memlimit: int | None = None
    wdeltat: float | None = None
    wlength: float | None = None
    wadapter: float | None = None

    @property
    def annealing_moves(self) -> int:
        """The moves that are given, or :data:`MOVES`, of a sweep :data:`SWEEP_MOVES`."""
        if self.moves is not None:
            return self.moves
        return SWEEP_MOVES if self.sweep else MOVES

    def document(self) -> dict[str, Any]:
        """The options as JSON types, with the moves that are made."""
        return asdict(self) | {"moves": self.annealing_moves, "sweep": list(self.sweep)}

    @classmethod
    def from_document(cls, document: Any, path: str | Path, key: str) -> "WaferOptions":
        """The options that :meth:`document` wrote.

        Raises:
            InputError: something else stands there.
        """
        return options_of(cls, document, path, key, "dse wafer")

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

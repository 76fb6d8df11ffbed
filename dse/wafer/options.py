"""What a user can ask of ``dse wafer``."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dse.kept_options import STRICT, options_of
from dse.wafer.formats import read_problem
from dse.wafer.kernels import read_library
from dse.wafer.problem import WaferProblem

MOVES = 8_000_000
"""Moves of annealing in all, where nothing else is asked: half a minute for 100 kernels."""


@dataclass(frozen=True)
class WaferOptions:
    """The options of ``dse wafer``.

    Attributes:
        case: a ``.kgraph`` file.
        kernels: a file of more kernel types (``dse.kernels/1``), or None.
        method: which of :data:`dse.wafer.methods.METHODS`.
        moves: of annealing, in all.
    """

    __pydantic_config__ = STRICT

    case: str
    kernels: str | None = None
    method: str = "portfolio"
    moves: int = MOVES

    def document(self) -> dict[str, Any]:
        """The options as JSON types."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Any, path: str | Path, key: str) -> "WaferOptions":
        """The options that :meth:`document` wrote.

        Raises:
            InputError: something else stands there.
        """
        return options_of(cls, document, path, key, "dse wafer")

    def problem(self) -> WaferProblem:
        """The problem that the options pose.

        Raises:
            InputError: the graph or the kernel types are malformed.
        """
        return read_problem(self.case, read_library(self.kernels))

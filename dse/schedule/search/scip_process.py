"""SCIP in a process of its own, as it does not see its limits or an interrupt while it solves one linear program.

Given: a problem in SCIP's format CIP behind a line of settings, as JSON. Written: each better solution with the bound
at that time, and at the end what is known then; a line each, as JSON (:class:`Line`).
"""

import json
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

from pyscipopt import Eventhdlr, Model
from pyscipopt.scip import PY_SCIP_EVENTTYPE

from dse.run.child import serve


class Line(TypedDict):
    """What SCIP knows: a lower bound, and the values of the best solution by variable; None where there is none."""

    bound: float
    values: dict[str, float] | None


def problem_text(model: Model) -> str:
    """A model in the format CIP."""
    with tempfile.TemporaryDirectory(prefix="dse-") as folder:
        path = Path(folder) / "problem.cip"
        model.writeProblem(str(path), verbose=False)
        return path.read_text()


def solve(given: bytes, out: BinaryIO) -> None:
    """Solve the problem that follows the settings."""
    settings, _, text = given.partition(b"\n")
    model = Model()
    model.hideOutput()
    with tempfile.TemporaryDirectory(prefix="dse-") as folder:
        path = Path(folder) / "problem.cip"
        path.write_bytes(text)
        model.readProblem(str(path))
    model.setParams(json.loads(settings))

    def tell() -> None:
        out.write(json.dumps(_known(model)).encode() + b"\n")
        out.flush()

    teller = _Teller(tell)
    model.includeEventhdlr(teller, "teller", "reports each improved solution")
    # The thread that ends this process with its parent needs the lock of the interpreter.
    model.optimizeNogil()
    tell()


class _Teller(Eventhdlr):
    """Calls a function at each better solution; the names of its methods are SCIP's."""

    def __init__(self, tell: Any) -> None:
        self._tell = tell

    def eventinit(self) -> None:
        self.model.catchEvent(PY_SCIP_EVENTTYPE.BESTSOLFOUND, self)

    def eventexit(self) -> None:
        self.model.dropEvent(PY_SCIP_EVENTTYPE.BESTSOLFOUND, self)

    def eventexec(self, event: Any) -> None:
        del event
        self._tell()


def _known(model: Model) -> Line:
    if model.getNSols() == 0:
        return Line(bound=model.getDualbound(), values=None)
    best = model.getBestSol()
    return Line(bound=model.getDualbound(), values={each.name: model.getSolVal(best, each) for each in model.getVars()})


if __name__ == "__main__":
    serve(solve)

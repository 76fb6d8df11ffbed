"""HiGHS on the pairwise linear program: its relaxation, whose duals prove a bound, and the mixed-integer program.

HiGHS runs inside OR-Tools (MathOpt); the package ``highspy`` must not be imported into the same process, as both bring
the same symbols. Its limits are numbers of iterations and of nodes, the same on every machine. It cannot be
interrupted, so what takes longer than a moment is solved in a process of its own (:mod:`highs_process`), which is
killed when the run is stopped.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.math_opt import model_parameters_pb2, model_pb2, parameters_pb2, result_pb2, solution_pb2

from dse.algorithms.pairwise import highs_process
from dse.algorithms.pairwise.certificate import Duals
from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.linear_model import LinearModel, linear_model
from dse.algorithms.pairwise.problem import Ints
from dse.run.child import heard_from
from dse.run.progress import StopSignal, never_stop

Floats = npt.NDArray[np.float64]

_SMALL_SIZE, _MOMENT_MS = 5_000, 500
"""Choices and pairs up to which a model is solved in this process, and for how long that is tried."""

_PROVEN_GAP = 0.999
"""Costs are whole numbers: a bound that is less than 1 below a plan proves it."""

_TOLERANCE = 1e-9
"""Of constraints: a memory row may be exceeded by this share of its limit, which no whole number is for most limits."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """What the linear program gave.

    Attributes:
        marginals: x of each node, [choices of u] each; None where it ended before.
        duals: its messages and multipliers; zero ones where it ended before.
    """

    marginals: tuple[Floats, ...] | None
    duals: Duals


class MipStatus(Enum):
    """How the mixed-integer program ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    LIMIT = "limit"


@dataclass(frozen=True, eq=False)
class MipAnswer:
    """What the mixed-integer program gave.

    Attributes:
        choices: [nodes] of the best plan; None if there is none.
        bound: no plan costs less, to HiGHS's tolerances.
    """

    status: MipStatus
    choices: Ints | None
    bound: float


def relaxation(core: Core, max_iterations: int, stop: StopSignal = never_stop) -> Relaxation | None:
    """The linear relaxation of ``core`` by the dual simplex, until ``stop``; None if it has no solution."""
    model = linear_model(core, is_integer=False)
    integers = {"simplex_iteration_limit": max_iterations}
    result = _solved(model.proto, core.size, stop, integers, {"solver": "simplex"})
    marginals, duals = None, Duals.zero(core)
    if result is None:
        return Relaxation(marginals, duals)
    if _is_infeasible(result):
        return None
    for solution in result.solutions[:1]:
        if solution.primal_solution.feasibility_status == solution_pb2.SOLUTION_STATUS_FEASIBLE:
            marginals = model.marginals(
                _dense(solution.primal_solution.variable_values, len(model.proto.variables.ids))
            )
        if solution.HasField("dual_solution"):
            rows = len(model.proto.linear_constraints.ids)
            duals = model.duals(_dense(solution.dual_solution.dual_values, rows))
    return Relaxation(marginals, duals)


def mip(
    core: Core,
    max_nodes: int,
    hint: Ints | None = None,
    seed: int = 0,
    scale: int = 1,
    stop: StopSignal = never_stop,
) -> MipAnswer:
    """The best plan of ``core``, by branch and bound.

    Args:
        core: to be solved; its costs are in units of 1/``scale``, and those of the answer in units of 1.
        max_nodes: of the tree.
        hint: [nodes], a plan to begin with.
        seed: of HiGHS.
        scale: by which costs are divided.
        stop: checked meanwhile; a reason ends the search, and its results are lost.
    """
    model = linear_model(core, is_integer=True)
    parameters = model_parameters_pb2.ModelSolveParametersProto()
    if hint is not None:
        values = parameters.solution_hints.add().variable_values
        values.ids.extend(range(int(model.starts[-1])))
        values.values.extend(np.isin(np.arange(model.starts[-1]), model.starts[:-1] + hint).astype(float))
    integers = {"mip_max_nodes": max_nodes, "random_seed": seed % 2**31}
    result = _solved(model.proto, core.size, stop, integers, {}, parameters, _PROVEN_GAP * scale / model.unit)
    if result is None:
        return MipAnswer(MipStatus.LIMIT, None, -np.inf)
    if _is_infeasible(result):
        return MipAnswer(MipStatus.INFEASIBLE, None, np.inf)
    choices = None
    for solution in result.solutions[:1]:
        choices = _choices(model, _dense(solution.primal_solution.variable_values, len(model.proto.variables.ids)))
    is_proven = result.termination.reason == result_pb2.TERMINATION_REASON_OPTIMAL
    bound = result.termination.objective_bounds.dual_bound * model.unit / scale
    return MipAnswer(MipStatus.OPTIMAL if is_proven else MipStatus.LIMIT, choices, bound)


def _choices(model: LinearModel, values: Floats) -> Ints:
    return np.array([int(each.argmax()) for each in model.marginals(values)], dtype=np.int64)


def _is_infeasible(result: Any) -> bool:
    # Costs are not negative, so that "infeasible or unbounded" is infeasible.
    return result.termination.reason in (
        result_pb2.TERMINATION_REASON_INFEASIBLE,
        result_pb2.TERMINATION_REASON_INFEASIBLE_OR_UNBOUNDED,
    )


def _dense(sparse: Any, length: int) -> Floats:
    values = np.zeros(length)
    values[np.array(sparse.ids, dtype=np.int64)] = np.array(sparse.values)
    return values


def _solved(
    proto: model_pb2.ModelProto,
    size: int,
    stop: StopSignal,
    integers: dict[str, int],
    strings: dict[str, str],
    model_parameters: Any = None,
    gap: float = 0.0,
) -> Any:
    """MathOpt's result; None where HiGHS fails, as it may by rounding errors or for want of memory, or is stopped."""
    parameters = parameters_pb2.SolveParametersProto(absolute_gap_tolerance=gap, relative_gap_tolerance=0.0)
    for name, number in integers.items():
        parameters.highs.int_options[name] = number
    for name, text in {**strings, "parallel": "off"}.items():
        parameters.highs.string_options[name] = text
    for name in ("primal_feasibility_tolerance", "mip_feasibility_tolerance"):
        parameters.highs.double_options[name] = _TOLERANCE
    model_parameters = model_parameters or model_parameters_pb2.ModelSolveParametersProto()
    if size <= _SMALL_SIZE:
        brief = parameters_pb2.SolveParametersProto()
        brief.CopyFrom(parameters)
        brief.time_limit.FromMilliseconds(_MOMENT_MS)
        result: Any = highs_process.solve(proto, brief, model_parameters)
        if result is None or result.termination.limit != result_pb2.LIMIT_TIME:
            return result
    return _solved_elsewhere([proto, parameters, model_parameters], stop)


def _solved_elsewhere(messages: Sequence[Any], stop: StopSignal) -> Any:
    """As :func:`highs_process.solve`, in a process that ends when ``stop`` gives a reason, and with this one.

    Raises:
        ChildFailedError: it failed otherwise.
    """
    given = b"".join(
        message.ByteSize().to_bytes(highs_process.LENGTH_BYTES, "little") + message.SerializeToString()
        for message in messages
    )
    heard = heard_from(highs_process.__name__, given, stop)
    if heard.killed is not None:
        warnings.warn(f"HiGHS was ended by {heard.killed}; its results so far are used", stacklevel=2)
    is_whole = heard.output and heard.stopped is None and heard.killed is None
    return result_pb2.SolveResultProto.FromString(heard.output) if is_whole else None

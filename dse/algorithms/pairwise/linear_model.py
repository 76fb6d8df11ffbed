"""The pairwise linear program of a core, as a MathOpt model that is written in bulk.

Variables: x_u(i), node u takes choice i, and y_e(I, J), edge e takes a pair of row class I and column class J. Rows of
an edge's matrix that are equal are one class, and so are columns: a class of rows shares its marginal, so that the
relaxation is the same (every solution of it splits into one of the full program), with fewer variables::

    Σ_i x_u(i) = 1                                     each node u
    Σ_J y_e(I, J) = Σ_{i in I} x_u(i)                  each edge e = (u, v) and row class I
    Σ_I y_e(I, J) = Σ_{j in J} x_v(j)                  each edge and column class J
    Σ_{u in r} Σ_i usage_u(i) x_u(i) / limit_r <= 1    each memory row r

x is binary in the mixed-integer program; y then takes integers by itself.

Source: Wainwright and Jordan, "Graphical Models, Exponential Families, and Variational Inference" (2008), 8.4; the
program of Alpa (Zheng et al., OSDI 2022), section 4.2.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ortools.math_opt import model_pb2

from dse.algorithms.pairwise.certificate import Duals
from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints

Floats = npt.NDArray[np.float64]

_LARGEST_COST = 2.0**20
"""In the objective; larger costs are divided, as the tolerances of solvers are absolute numbers."""


@dataclass(frozen=True)
class _EdgeRows:
    """Where the constraints of an edge begin, and the classes of its rows and of its columns."""

    start: int
    row_class: Ints
    column_class: Ints


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The program, and which of its variables and constraints belong to what.

    Attributes:
        proto: the model; the first variables are the choices of all nodes, in order.
        starts: [nodes + 1], the variable of each node's first choice.
        unit: costs of the core in an objective of 1.
    """

    core: Core
    proto: model_pb2.ModelProto
    starts: Ints
    unit: float
    _edges: tuple[_EdgeRows, ...]
    _first_memory_row: int

    def marginals(self, values: Floats) -> tuple[Floats, ...]:
        """The x of each node, of the values of the variables."""
        return tuple(np.split(values[: self.starts[-1]], self.starts[1:-1]))

    def duals(self, values: Floats) -> Duals:
        """The messages and multipliers in the dual values of the constraints."""
        values = values * self.unit
        first, second = [], []
        for edge in self._edges:
            columns = edge.start + int(edge.row_class.max(initial=-1)) + 1
            first.append(values[edge.start + edge.row_class])
            second.append(values[columns + edge.column_class])
        multipliers = -values[self._first_memory_row :] / np.maximum(self.core.limits, 1)
        return Duals(tuple(first), tuple(second), np.maximum(multipliers, 0.0))


def linear_model(core: Core, is_integer: bool) -> LinearModel:
    """The program of ``core``; its relaxation unless ``is_integer``."""
    starts = np.cumsum([0, *map(len, core.costs)])
    entries = _Entries()
    entries.add(np.repeat(np.arange(len(core.costs)), np.diff(starts)), np.arange(starts[-1]), np.ones(starts[-1]))
    costs = [np.minimum(each, FORBIDDEN) for each in core.costs]
    rows, columns = len(core.costs), int(starts[-1])
    edges: list[_EdgeRows] = []
    for (u, v), matrix in zip(core.edges.tolist(), core.edge_costs, strict=True):
        row_class, column_class = _classes(matrix), _classes(matrix.T)
        height, width = int(row_class.max()) + 1, int(column_class.max()) + 1
        smaller = np.zeros((height, width), dtype=np.int64)
        smaller[row_class[:, None], column_class] = matrix
        first, second = np.nonzero(smaller < FORBIDDEN)
        pairs = columns + np.arange(len(first))
        entries.add(rows + first, pairs, np.ones(len(pairs)))
        entries.add(rows + row_class, starts[u] + np.arange(len(row_class)), np.full(len(row_class), -1.0))
        entries.add(rows + height + second, pairs, np.ones(len(pairs)))
        entries.add(
            rows + height + column_class, starts[v] + np.arange(len(column_class)), np.full(len(column_class), -1.0)
        )
        costs.append(smaller[first, second])
        edges.append(_EdgeRows(rows, row_class, column_class))
        rows, columns = rows + height + width, columns + len(pairs)
    for row, (members, limit) in enumerate(zip(core.members, core.limits.tolist(), strict=True)):
        variables = np.concatenate([np.arange(starts[node], starts[node + 1]) for node in members])
        usages = np.concatenate([core.usages[node] for node in members])
        entries.add(np.full(len(usages), rows + row), variables, usages / max(limit, 1))
    upper = np.ones(columns)
    upper[: starts[-1]] = np.concatenate(core.costs) < FORBIDDEN
    objective = np.concatenate(costs).astype(np.float64)
    objective[: starts[-1]][upper[: starts[-1]] == 0] = 0.0
    unit = 2.0 ** max(0.0, np.ceil(np.log2(max(1.0, objective.max()) / _LARGEST_COST)))
    proto = model_pb2.ModelProto()
    _write_variables(proto, upper, objective / unit, int(starts[-1]) if is_integer else 0)
    _write_constraints(proto, entries, len(core.costs), rows, len(core.members))
    return LinearModel(core, proto, starts, unit, tuple(edges), rows)


class _Entries:
    """Entries of the constraint matrix."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Floats]] = []

    def add(self, rows: Ints, columns: Ints, values: Floats) -> None:
        self._parts.append((rows, columns, values))

    def sorted(self) -> tuple[Ints, Ints, Floats]:
        """(rows, columns, values) other than zero, in the order of rows and then columns, as MathOpt demands."""
        rows, columns, values = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        order = np.lexsort((columns, rows))
        order = order[values[order] != 0]
        return rows[order], columns[order], values[order]


def _classes(matrix: Ints) -> Ints:
    """A number for each row, from 0, the same for equal rows."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in matrix], dtype=np.int64)


def _write_variables(proto: model_pb2.ModelProto, upper: Floats, objective: Floats, integers: int) -> None:
    proto.variables.ids.extend(range(len(upper)))
    proto.variables.lower_bounds.extend(np.zeros(len(upper)))
    proto.variables.upper_bounds.extend(upper)
    proto.variables.integers.extend(np.arange(len(upper)) < integers)
    charged = np.flatnonzero(objective)
    proto.objective.linear_coefficients.ids.extend(charged)
    proto.objective.linear_coefficients.values.extend(objective[charged])


def _write_constraints(proto: model_pb2.ModelProto, entries: _Entries, nodes: int, rows: int, memory_rows: int) -> None:
    """One choice for each of ``nodes``; then, up to ``rows``, equations with 0; then the memory rows."""
    one, zero = np.ones(nodes), np.zeros(rows - nodes)
    proto.linear_constraints.ids.extend(range(rows + memory_rows))
    proto.linear_constraints.lower_bounds.extend(np.concatenate([one, zero, np.full(memory_rows, -np.inf)]))
    proto.linear_constraints.upper_bounds.extend(np.concatenate([one, zero, np.ones(memory_rows)]))
    matrix_rows, matrix_columns, values = entries.sorted()
    proto.linear_constraint_matrix.row_ids.extend(matrix_rows)
    proto.linear_constraint_matrix.column_ids.extend(matrix_columns)
    proto.linear_constraint_matrix.coefficients.extend(values)

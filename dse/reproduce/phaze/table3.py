"""Table 3: which cores run an operator."""

from typing import get_args

from dse.reproduce.phaze.context import Context
from dse.reproduce.section import Comparison, Row, Section, Table
from hardware.operations import Collective, Convolution, CoreKind, Gemm, Operation, Vector, core_kind

_TABLE_3: dict[str, Operation] = {
    "Convolution": Convolution(1, 1, 1, 1, 1, 1, 1),
    "ReLU": Vector("relu", 1, 1, 1),
    "Linear": Gemm(1, 1, 1),
    "Softmax": Vector("softmax", 1, 1, 1),
    "Batched MM": Gemm(1, 1, 1, batch=2),
    "Allreduce": Collective("all_reduce", 1, 2),
}
"""Our operation for each row of Table 3."""


def table3(context: Context) -> Section:
    """The core that runs each operator, next to the paper's."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for name, core in context.paper.table_3.cores.items():
        ours = core_kind(_TABLE_3[name])
        rows.append((name, f"{core} core", f"{ours} core", "yes" if ours == core else "no"))
        comparisons.append(Comparison(name, "", "runs on the paper's core", "", float(ours == core), 1.0))
    tables = (Table(("operator", "paper", "ours", "same"), tuple(rows)),)
    note = (
        f"Core kinds: {', '.join(get_args(CoreKind))}. A product with a single elementwise consumer becomes one "
        "fused operator, which runs on a tensor and a vector core of the same number, as in the paper."
    )
    return Section("table3", "Table 3: core that runs each operator", tables, (note,), tuple(comparisons))

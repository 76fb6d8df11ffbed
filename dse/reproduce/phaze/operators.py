"""What the paper counts as operators (Table 4), and which cores run them (Table 3).

Its published tool traces a model's forward pass with torch.fx and keeps every node: products and vector work, and also
sizes, index arithmetic, views, permutations, copies and masks. Our graphs have the operators that work.
"""

from collections import Counter
from typing import get_args

from dse.graph.operator_graph import Operator
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import build
from dse.reproduce.phaze.context import Context
from dse.reproduce.section import Comparison, Row, Section, Table
from dse.sources.workloads import model as hyperparameters
from hardware.operations import (
    Collective,
    Convolution,
    CoreKind,
    Fused,
    Gemm,
    Operation,
    Vector,
    core_kind,
)

UNLIKE = "the paper counts all nodes of a trace, those that do no work too"

HEADERS = (
    "model",
    "paper",
    "products",
    "dropouts",
    "other vector work",
    "all-reduces",
    "operators that work",
    "paper's other nodes",
)

NOTE = (
    "Operators of a block, forward, not fused, one slice where the model has tensor-parallel widths. The published "
    "tool keeps every node of a torch.fx trace: sizes, index arithmetic, views, permutations, copies and masks too. "
    "Megatron's code has most of them. Heads are no operators of their own: Megatron 2.5B, 8.3B and GPT3 have 20, 32 "
    "and 96 heads and the same 131 nodes. Our graphs leave out what does no work."
)

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
    """The core that runs each operator, beside the paper's."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for name, core in context.paper.table_3.cores.items():
        ours = core_kind(_TABLE_3[name])
        rows.append((name, f"{core} core", f"{ours} core", "yes" if ours == core else "no"))
        comparisons.append(Comparison(name, "", "runs on the paper's core", "", float(ours == core), 1.0))
    tables = (Table(("operator", "paper", "ours", "same"), tuple(rows)),)
    note = (
        f"Kinds of cores: {', '.join(get_args(CoreKind))}. A product with a single elementwise consumer becomes one "
        "fused operator, which runs on a tensor and a vector core of the same number, as in the paper."
    )
    return Section("table3", "Table 3: which core runs an operator", tables, (note,), tuple(comparisons))


def counted(context: Context) -> Table:
    """Operators of a block by kind beside the paper's count, for every model that Table 4 has."""
    rows = []
    for model in context.models:
        published = context.paper.models[model].table_4
        if published is not None:
            kinds = _kinds(model)
            works = sum(kinds.values())
            counts = (*(kinds[kind] for kind in ("product", "dropout", "vector", "all-reduce")), works)
            rows.append((model, f"{published.operators}", *map(str, counts), f"{published.operators - works}"))
    return Table(HEADERS, tuple(rows))


def _kinds(model: str) -> Counter[str]:
    """Operators of one block's forward pass by kind."""
    hyper = hyperparameters(model)
    graph = build(hyper, 1, max(hyper.tensor_parallel), TrainingRecipe(fuse=False))
    return Counter(map(_kind, graph.distinct_layers[1].forward))


def _kind(operator: Operator) -> str:
    match operator.operation:
        case Gemm() | Convolution() | Fused():
            return "product"
        case Vector(kind="dropout"):
            return "dropout"
        case Collective():
            return "all-reduce"
        case _:
            return "vector"

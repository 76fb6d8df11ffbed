"""Table 4: how large the models are, as the published tool counts them, beside the models themselves. No search.

The paper does not say what it counts. Its tool does: the nodes of a traced layer that fusion leaves, what their outputs
and weights hold, and the work of their products and of those nodes that vector cores take part in
(:mod:`dse.models.traced`), all at a microbatch of 8 and the least width that the model is searched with.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dse.graph.operator_graph import Operator, OperatorGraph
from dse.models.recipe import TrainingRecipe
from dse.models.traced.layer import figures
from dse.models.traced.model import traced_block
from dse.models.transformer import build
from dse.models.workload import BuiltModel
from dse.reproduce.phaze.context import Context
from dse.reproduce.phaze.published import Table4
from dse.reproduce.section import Comparison, Row, Section, Table, ratio, times
from dse.sources.workloads import model as hyperparameters
from hardware.operations import Fused, Vector
from hardware.units import GIB, GIGA, MEGA

HEADERS = ("model", "figure", "paper", "as its tool counts", "that / paper", "of the model itself", "which is of")

MICROBATCH = 8
"""At which Table 4 was made: sizes and work of every model agree there."""

_ELEMENT_BYTES = 2
_THOUSANDTHS = 1000 / GIB
"""The paper's MB: thousandths of 2³⁰ bytes."""

_ELEMENTS = "the paper's is of elements, not bytes"
_UNLIKE = {
    ("opt-350m", "parameter size"): _ELEMENTS,
    ("opt-350m", "activation size"): _ELEMENTS,
    ("gpt2-xl", "parameter size"): "the paper's is of the embeddings",
    ("megatron-2.5b", "vector FLOPs"): "the paper repeats the digits of the tensor FLOPs",
}
"""Where the paper's figure is of something else."""

_NOTES = (
    "As its tool counts: a block at a microbatch of 8, width 1 (GPT3: 4). Operators are the nodes of a torch.fx trace "
    "after fusion, with a source and a sink: sizes, attributes, views, permutations and copies count, heads do not. Of "
    "Megatron's GPT models one layer is traced, and the final norm, the logits and the cross entropy behind it are "
    "taken for a part of it: 43 of the 132 nodes, and work that every block then pays for.",
    "Tensor FLOPs are multiply-accumulates, forward and one gradient. Linear modules of Hugging Face lose the batch. "
    "Of torch.bmm the tool takes the columns of the result for the length of the sum: in OPT and Megatron scores count "
    "sequence³ a head (OPT's are 7.5 times its other products), contexts sequence · head width².",
    "Vector FLOPs are elements of every node on vector cores and of every product that took one in, twice. Those of "
    "Megatron 2.5B have the digits of its tensor FLOPs (so have 8.3B's, by chance near ours), a slip of the paper.",
    "Activation size holds the outputs of all nodes, views and shapes of tensors included. MB and GB are of 2³⁰ bytes; "
    "88 MB of Megatron 2.5B and 900 MB of GPT3 are decimal (88.5, 906). OPT's sizes are elements, GPT2's 152 MB its "
    "two embeddings (152.8).",
    "OPT: Table 4 prints 12 layers, Table 2 and the model's publication 24; the figures are of one layer either way.",
)


@dataclass(frozen=True)
class Figure:
    """One number of Table 4: the paper's, the tool's count, the model's own, and what that is of."""

    name: str
    unit: str
    paper: float
    counted: float
    plain: float
    plain_of: str


def table4(context: Context) -> Section:
    """Every figure of every model that Table 4 has."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for model in context.models:
        published = context.paper.models[model].table_4
        if published is None:
            rows.append((model, "not in Table 4", "", "", "", "", ""))
            continue
        for index, figure in enumerate(_figures(model, published)):
            reason = _UNLIKE.get((model, figure.name), "")
            rows.append(_row(model if index == 0 else "", figure, reason))
            comparisons.append(Comparison(model, "", figure.name, figure.unit, figure.counted, figure.paper, reason))
        placement = published.expert
        ours = BuiltModel(hyperparameters(model)).expert_placement
        theirs = f"{{{placement.pipeline}, {placement.data}, {placement.tensor}}}"
        same = ours is not None and (ours.pipeline, ours.data, ours.tensor) == tuple(placement.model_dump().values())
        rows.append(("", "expert {p, d, t}", theirs, "", "", theirs if same else str(ours), "the model's YAML file"))
    title = "Table 4: size of the models"
    return Section("table4", title, (Table(HEADERS, tuple(rows)),), _NOTES, tuple(comparisons))


def _figures(model: str, published: Table4) -> Iterator[Figure]:
    """The six numbers of one model."""
    hyper = hyperparameters(model)
    tool = figures(traced_block(hyper, MICROBATCH, min(hyper.tensor_parallel)))
    whole = build(hyper, 1, 1, TrainingRecipe(fuse=False))
    block = whole.distinct_layers[1]
    both = "block, forward + backward, microbatch 1"
    layers = float(hyper.layers)
    yield Figure("layers", "", published.layers, layers, layers, "the model")
    working = len(block.forward)
    yield Figure("operators", "", published.operators, tool.operators, working, "those that work, block, forward")
    weights = tool.parameters * _ELEMENT_BYTES * _THOUSANDTHS
    yield Figure("parameter size", "MB", published.parameter_mb, weights, block.weight_bytes / MEGA, "block, 10⁶ bytes")
    outputs = tool.activation_elements * _ELEMENT_BYTES * _THOUSANDTHS
    kept = sum(layer.activation_bytes for layer in whole.layers) / MEGA
    kept_of = "kept for the backward pass, model, microbatch 1, 10⁶ bytes"
    yield Figure("activation size", "MB", published.activation_mb, outputs, kept, kept_of)
    flops = (block.forward.flops + block.backward.flops) / GIGA
    yield Figure("tensor FLOPs", "G", published.tensor_flops / GIGA, tool.tensor_operations / GIGA, flops, both)
    elements = (_vector_elements(block.forward) + _vector_elements(block.backward)) / GIGA
    counted = tool.vector_operations / GIGA
    yield Figure("vector FLOPs", "G", published.vector_flops / GIGA, counted, elements, f"elements, {both}")


def _vector_elements(graph: OperatorGraph) -> float:
    """Elements that vector operators pass over, each operator counted once an element."""
    return float(sum(_elements(operator) for operator in graph))


def _elements(operator: Operator) -> int:
    match operator.operation:
        case Vector(elements=elements):
            return elements
        case Fused(epilogue=epilogue):
            return sum(vector.elements for vector in epilogue)
        case _:
            return 0


def _row(model: str, figure: Figure, reason: str) -> Row:
    def cell(value: float) -> str:
        return f"{value:,.0f} {figure.unit}".strip() if value >= 100 else f"{value:.3g} {figure.unit}".strip()

    share = times(ratio(figure.counted, figure.paper))
    return (
        model,
        figure.name,
        cell(figure.paper),
        cell(figure.counted),
        f"{share}: {reason}" if reason else share,
        cell(figure.plain),
        figure.plain_of,
    )

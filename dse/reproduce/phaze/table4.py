"""Table 4: how large the models are, as the published tool counts them, next to the models themselves. No search.

The paper does not say what it counts. Its tool does: the nodes of a traced layer that fusion leaves, what their outputs
and weights hold, and the work of their products and of those nodes that vector cores take part in
(:mod:`dse.models.traced`). The caption is "for TMP width 1"; a model that is never searched with that width is also
counted at the least one that it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dse.graph.operator_graph import Operator, OperatorGraph
from dse.models.hyperparameters import Hyperparameters
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

HEADERS = ("model", "figure", "paper", "as counted by its tool", "ratio to paper", "of the model itself", "scope")

MICROBATCH = 8
"""Inferred: the paper states none, and this is the one at which sizes and work agree."""

_ELEMENT_BYTES = 2
_THOUSANDTHS = 1000 / GIB
"""MB as thousandths of 2³⁰ bytes: fitted, one unit for all rows."""

_ELEMENTS = "the paper's value matches elements, not bytes (inferred)"
_UNLIKE = {
    ("opt-350m", "layers"): "the paper's Table 2 and the model's publication state 24",
    ("opt-350m", "parameter size"): _ELEMENTS,
    ("opt-350m", "activation size"): _ELEMENTS,
    ("gpt2-xl", "parameter size"): "the paper's value matches the two embeddings (inferred)",
    ("megatron-2.5b", "vector FLOPs"): "the paper repeats the digits of the tensor FLOPs",
}
"""Where the paper's figure is of something else."""

_CONTRADICTS = "contradicts the caption, which states width 1"

_NOTES = (
    f"As counted by its tool: a block at width 1 and a microbatch of {MICROBATCH}. The microbatch is inferred: the "
    "paper does not state it, and this value matches its figures. Operators are the nodes of a torch.fx trace after "
    "fusion, with a source and a sink: sizes, attributes, views, permutations and copies count, heads do not.",
    "Tensor FLOPs are multiply-accumulates of the forward pass and one gradient. Vector FLOPs are twice the elements "
    "of every node on vector cores and of every product fused with one. Activation size covers the outputs of all "
    "nodes, including views and tensor shapes.",
    "As counted by its tool, an MB is 2³⁰ / 1000 bytes. This unit is inferred: the paper does not define it, and most "
    "of its sizes match. In units of 10⁶ bytes, our figures are 7 % larger.",
)
_GPT = ("megatron-2.5b", "megatron-8.3b", "gpt3-175b")
_NOTES_OF = (
    (
        _GPT,
        "For Megatron's GPT models, the tool traces one layer including the final norm, the logits and the cross "
        "entropy, so every block has these nodes and their work.",
    ),
    (
        ("opt-350m", "bert-large"),
        "The tool ignores the batch in Hugging Face linear modules with three-dimensional input.",
    ),
    (
        ("opt-350m", "megatron-bert", *_GPT),
        "For torch.bmm, the tool uses the number of result columns as the reduction length: scores count as "
        "sequence³ per "
        "head, contexts as sequence · head width².",
    ),
)
"""Notes on some models, printed with any of them."""


@dataclass(frozen=True)
class Figure:
    """One number of Table 4: the paper's, the tool's count, the model's own where there is one, and what that is of."""

    name: str
    unit: str
    paper: float
    counted: float
    plain: float | None = None
    plain_of: str = ""


def table4(context: Context) -> Section:
    """Every figure of every model that Table 4 has."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    notes = [*_NOTES, *(text for models, text in _NOTES_OF if set(models) & set(context.models))]
    for model in context.models:
        published = context.paper.models[model].table_4
        if published is None:
            rows.append((model, "not in Table 4", "", "", "", "", ""))
            continue
        hyper = hyperparameters(model)
        least = min(hyper.tensor_parallel)
        figures_of_model = [(figure, _UNLIKE.get((model, figure.name), "")) for figure in _figures(hyper, published)]
        if least > 1:
            figures_of_model += [(figure, _CONTRADICTS) for figure in _at_width(hyper, published, least)]
            notes.append(
                f"{model} is searched with widths of at least {least}, so it is also counted at {least}; this "
                f"{_CONTRADICTS}."
            )
        for index, (figure, reason) in enumerate(figures_of_model):
            rows.append(_row(model if index == 0 else "", figure, reason))
            comparisons.append(Comparison(model, "", figure.name, figure.unit, figure.counted, figure.paper, reason))
        placement = published.expert
        ours = BuiltModel(hyper).expert_placement
        theirs = f"{{{placement.pipeline}, {placement.data}, {placement.tensor}}}"
        same = ours is not None and (ours.pipeline, ours.data, ours.tensor) == tuple(placement.model_dump().values())
        rows.append(("", "expert {p, d, t}", theirs, "", "", theirs if same else str(ours), "the model's YAML file"))
    notes += _unexplained(comparisons)
    title = "Table 4: size of the models"
    return Section("table4", title, (Table(HEADERS, tuple(rows)),), tuple(notes), tuple(comparisons))


def _unexplained(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """The counts of operators that differ: the rule that they are counted by is exact where it is right."""
    differ = [
        f"{each.model} {each.ours:g} for {each.paper:g}"
        for each in comparisons
        if each.quantity == "operators" and each.ours != each.paper
    ]
    if differ:
        yield f"Operator counts (ours for the paper's) that differ for an unknown reason: {', '.join(differ)}."


def _figures(hyper: Hyperparameters, published: Table4) -> Iterator[Figure]:
    """The six numbers of one model at width 1."""
    whole = build(hyper, 1, 1, TrainingRecipe(fuse=False))
    block = whole.distinct_layers[1]
    layers = float(hyper.layers)
    yield Figure("layers", "", published.layers, layers, layers, "the model")
    flops = (block.forward.flops + block.backward.flops) / GIGA
    elements = (_vector_elements(block.forward) + _vector_elements(block.backward)) / GIGA
    saved = sum(layer.activation_bytes for layer in whole.layers) / MEGA
    both = "block, forward + backward, microbatch 1"
    plain = (
        (len(block.forward), "compute operators, block, forward"),
        (block.weight_bytes / MEGA, "block, 10⁶ bytes"),
        (saved, "stored for the backward pass, model, microbatch 1, 10⁶ bytes"),
        (flops, both),
        (elements, f"elements, {both}"),
    )
    for counted, (value, what) in zip(_counted(hyper, published, 1), plain, strict=True):
        yield replace(counted, plain=value, plain_of=what)


def _at_width(hyper: Hyperparameters, published: Table4, width: int) -> Iterator[Figure]:
    """The same but for the layers, as the tool counts a slice of ``width``."""
    for figure in _counted(hyper, published, width):
        yield replace(figure, name=f"{figure.name}, width {width}")


def _counted(hyper: Hyperparameters, published: Table4, width: int) -> Iterator[Figure]:
    """What the tool counts next to the paper's, without the model's own."""
    tool = figures(traced_block(hyper, MICROBATCH, width))
    megabytes = _ELEMENT_BYTES * _THOUSANDTHS
    yield Figure("operators", "", published.operators, tool.operators)
    yield Figure("parameter size", "MB", published.parameter_mb, tool.parameters * megabytes)
    yield Figure("activation size", "MB", published.activation_mb, tool.activation_elements * megabytes)
    yield Figure("tensor FLOPs", "G", published.tensor_flops / GIGA, tool.tensor_operations / GIGA)
    yield Figure("vector FLOPs", "G", published.vector_flops / GIGA, tool.vector_operations / GIGA)


def _vector_elements(graph: OperatorGraph) -> float:
    """Elements that vector operators pass over, each operator counted once per element."""
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

    return (
        model,
        figure.name,
        cell(figure.paper),
        cell(figure.counted),
        f"–: {reason}" if reason else times(ratio(figure.counted, figure.paper)),
        "" if figure.plain is None else cell(figure.plain),
        figure.plain_of,
    )

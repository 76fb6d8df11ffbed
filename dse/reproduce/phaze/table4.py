"""Table 4: how large the models are. It needs no search.

The paper does not say what it counts: of one layer or of the whole model, the forward pass or both, products or
multiplications and additions, at which microbatch. So each of its figures stands beside ours in one plain reading, and
beside whichever reading comes closest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from dse.graph.operator_graph import ModelGraph, Operator, OperatorGraph
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import build
from dse.models.workload import BuiltModel
from dse.reproduce.phaze.context import Context
from dse.reproduce.phaze.operators import NOTE, UNLIKE, counted
from dse.reproduce.phaze.published import Table4
from dse.reproduce.section import Comparison, Row, Section, Table, ratio, times
from dse.sources.workloads import model as hyperparameters
from hardware.operations import Fused, Vector
from hardware.units import GIGA, MEGA, MIB

HEADERS = ("model", "figure", "paper", "ours", "ours / paper", "ours is of", "nearest reading", "it / paper")

MICROBATCHES = (1, 2, 4, 8)

_MATCH = 0.03
"""Two figures agree when they differ by less: the paper prints two or three digits."""

_NOTES = (
    "Ours: operators of one transformer block that work, forward, not fused; weights of one block in 16 bits; what the "
    "whole model keeps at microbatch 1; FLOPs of one block, forward and backward, microbatch 1.",
    "OPT: Table 4 prints 12 layers, Table 2 and the model's publication 24. Twelve blocks, forward and backward, have "
    "the 2.5·10¹² tensor FLOPs of Table 4 (and the expert has twelve stages), so that figure was made with 12 layers.",
    "Parameter size is that of one block in 16 bits for Megatron 2.5B, within 5 % (in MiB) for BertLarge, Bert with "
    "TMP and Megatron 8.3B, and of one of 4 slices of a block for GPT3, although the caption says width 1. OPT's 12 MB "
    "are 12 Mi parameters of a block, half its bytes; GPT2's 152 MB its largest layer, the token embedding.",
    "Activation size is that of the whole model at microbatch 1 for OPT and (5 to 9 % off) Megatron 2.5B and Bert with "
    "TMP; the paper's is 1.6 to 1.8 times smaller for BertLarge, GPT2 and Megatron 8.3B, and 11 times for GPT3.",
    "Tensor FLOPs follow no one reading: GPT3's are of one block, forward and backward; BertLarge's are half of that "
    "(multiply-accumulates); GPT2's the forward pass of one block at microbatch 8. Vector FLOPs follow none either. "
    "Among so many readings some agree by chance: only one that holds for several models would mean something.",
)


@dataclass(frozen=True)
class Reading:
    """One way to count: the number and what it is of."""

    value: float
    of: str


def table4(context: Context) -> Section:
    """Ours beside the paper's for every model that Table 4 has."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for model in context.models:
        published = context.paper.models[model].table_4
        if published is None:
            rows.append((model, "not in Table 4", "", "", "", "", "", ""))
            continue
        for index, (figure, unit, paper, plain, readings) in enumerate(_figures(model, published)):
            near = _nearest(paper, readings or [plain])
            reason = UNLIKE if figure == "operators" else _reason(plain, near, paper)
            rows.append(_row(model if index == 0 else "", figure, unit, paper, plain, near))
            comparisons.append(Comparison(model, "", figure, unit, plain.value, paper, reason))
        placement = published.expert
        ours = BuiltModel(hyperparameters(model)).expert_placement
        theirs = f"{{{placement.pipeline}, {placement.data}, {placement.tensor}}}"
        same = ours is not None and (ours.pipeline, ours.data, ours.tensor) == tuple(placement.model_dump().values())
        rows.append(
            ("", "expert {p, d, t}", theirs, theirs if same else str(ours), "", "the model's YAML file", "", "")
        )
    title = "Table 4: size of the models"
    tables = (Table(HEADERS, tuple(rows)), counted(context))
    return Section("table4", title, tables, (*_NOTES, NOTE), tuple(comparisons))


Figure = tuple[str, str, float, Reading, list[Reading]]
"""Name, unit, the paper's number, our plain reading, all readings."""


def _figures(model: str, published: Table4) -> Iterator[Figure]:
    """The six numbers of one model."""
    hyper = hyperparameters(model)
    whole = build(hyper, 1, 1, TrainingRecipe(fuse=False))
    fused = build(hyper, 1, 1, TrainingRecipe())
    block = whole.distinct_layers[1]
    operators = [
        Reading(float(len(graph.forward) + both * len(graph.backward)), f"block, {passes}, {how}")
        for graph, how in ((fused.distinct_layers[1], "fused"), (block, "not fused"))
        for both, passes in ((0, "forward"), (1, "forward + backward"))
    ]
    flops = list(_work_readings(model, _tensor_flops, "FLOPs", published.layers))
    macs = [Reading(reading.value / 2, reading.of.replace("FLOPs", "multiply-accumulates")) for reading in flops]
    per_pass = "block, forward + backward"
    yield "layers", "", float(published.layers), Reading(float(hyper.layers), "blocks"), []
    yield "operators", "", float(published.operators), operators[2], operators
    weights = Reading(block.weight_bytes / MEGA, "block, 16 bits")
    yield "parameter size", "MB", published.parameter_mb, weights, list(_weight_readings(model))
    stored = Reading(sum(layer.activation_bytes for layer in whole.layers) / MEGA, "model, microbatch 1")
    yield "activation size", "MB", published.activation_mb, stored, list(_activation_readings(model))
    tensor = Reading((block.forward.flops + block.backward.flops) / GIGA, f"{per_pass}, microbatch 1")
    yield "tensor FLOPs", "G", published.tensor_flops / GIGA, tensor, flops + macs
    vector = Reading(
        (_vector_elements(block.forward) + _vector_elements(block.backward)) / GIGA, f"{per_pass}, elements"
    )
    elements = list(_work_readings(model, _vector_elements, "elements", published.layers))
    yield "vector FLOPs", "G", published.vector_flops / GIGA, vector, elements


def _widths(model: str) -> tuple[int, ...]:
    return tuple(sorted({1, *hyperparameters(model).tensor_parallel}))


def _graphs(model: str) -> Iterator[tuple[int, int, ModelGraph]]:
    """(width, microbatch, graph) of every combination, not fused."""
    hyper = hyperparameters(model)
    for width, microbatch in product(_widths(model), MICROBATCHES):
        yield width, microbatch, build(hyper, microbatch, width, TrainingRecipe(fuse=False))


def _slice_text(width: int) -> str:
    return "" if width == 1 else f", one of {width} slices"


def _weight_readings(model: str) -> Iterator[Reading]:
    """Weights of a block and of the largest layer, in MB, MiB and millions of parameters."""
    for width in _widths(model):
        graph = build(hyperparameters(model), 1, width, TrainingRecipe(fuse=False))
        largest = max(layer.weight_bytes for layer in graph.layers)
        for of, size in (("block", graph.distinct_layers[1].weight_bytes), ("largest layer", largest)):
            where = f"{of}{_slice_text(width)}"
            yield Reading(size / MEGA, f"{where}, 16 bits")
            yield Reading(size / MIB, f"{where}, 16 bits, MiB")
            yield Reading(size / 2 / MIB, f"{where}, Mi parameters")


def _activation_readings(model: str) -> Iterator[Reading]:
    """Activations that a block, all blocks, or the whole model keeps, in MB and MiB."""
    for width, microbatch, graph in _graphs(model):
        block, layers = graph.distinct_layers[1], hyperparameters(model).layers
        sizes = {
            "block": block.activation_bytes,
            "blocks": layers * block.activation_bytes,
            "model": sum(layer.activation_bytes for layer in graph.layers),
        }
        for of, size in sizes.items():
            where = f"{of}{_slice_text(width)}, microbatch {microbatch}"
            yield Reading(size / MEGA, where)
            yield Reading(size / MIB, f"{where}, MiB")


def _work_readings(model: str, count: Callable[[OperatorGraph], float], unit: str, blocks: int) -> Iterator[Reading]:
    """Work of a block, of ``blocks`` of them (as many as the paper prints), or of the whole model, in units of 10⁹."""
    for width, microbatch, graph in _graphs(model):
        for passes in ("forward", "forward + backward"):
            parts = [
                count(layer.forward) + (count(layer.backward) if passes != "forward" else 0.0)
                for layer in graph.distinct_layers
            ]
            whole = sum(parts[index] for index in graph.layer_index)
            for of, amount in (("block", parts[1]), (f"{blocks} blocks", blocks * parts[1]), ("model", whole)):
                where = f"{of}{_slice_text(width)}, {passes}, microbatch {microbatch}"
                yield Reading(amount / GIGA, f"{where}, {unit}")


def _tensor_flops(graph: OperatorGraph) -> float:
    return float(graph.flops)


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


def _reason(plain: Reading, near: Reading, paper: float) -> str:
    """Why our plain reading is not what the paper counts; empty where the two agree, or nothing comes nearer."""
    if near is plain or abs(plain.value / paper - 1) <= _MATCH:
        return ""
    return f"the paper does not say what it counts; nearest is {near.of}"


def _nearest(paper: float, readings: Sequence[Reading]) -> Reading:
    """The reading that comes closest: one of whole layers where one agrees, since the caption says width 1."""
    whole = [reading for reading in readings if "slices" not in reading.of]
    near = min(whole, key=lambda reading: abs(reading.value / paper - 1))
    if abs(near.value / paper - 1) <= _MATCH:
        return near
    return min(readings, key=lambda reading: abs(reading.value / paper - 1))


def _row(model: str, figure: str, unit: str, paper: float, plain: Reading, near: Reading) -> Row:
    def cell(value: float) -> str:
        return f"{value:,.0f} {unit}".strip() if value >= 100 else f"{value:.3g} {unit}".strip()

    agrees = "≈ " if abs(near.value / paper - 1) <= _MATCH else ""
    share = near.value / paper
    return (
        model,
        figure,
        cell(paper),
        cell(plain.value),
        times(ratio(plain.value, paper)),
        plain.of,
        "" if near is plain and not agrees else near.of,
        f"{agrees}{share:.3f}",
    )

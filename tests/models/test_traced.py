"""Layers as the published tool traces them give the figures of its paper's Table 4."""

from collections import Counter
from itertools import pairwise

import pytest
import yaml

from dse.codesign.modern.asked import modern_problem
from dse.codesign.options import CodesignOptions
from dse.models.recipe import recipe_for
from dse.models.traced import megatron
from dse.models.traced.fusion import fused
from dse.models.traced.layer import figures, layer
from dse.models.traced.model import TracedModel, is_traced, traced_block
from dse.models.traced.trace import PRODUCTS, Trace
from dse.reproduce.phaze.published import read_published
from dse.reproduce.phaze.table4 import MICROBATCH
from dse.sources.workloads import model
from hardware.cost_model import cost_model
from hardware.inputs import InputError
from hardware.operations import Collective, Fused, Gemm

PAPER = read_published()
MODELS = [name for name, row in PAPER.models.items() if row.table_4 is not None]
RECIPE = recipe_for(cost_model("phaze-2024"))
GIB = 2**30


def counted(name):
    hyper = model(name)
    return figures(traced_block(hyper, MICROBATCH, min(hyper.tensor_parallel)))


def test_the_models_of_table_4_are_traced_and_no_others():
    assert [name for name in PAPER.models if is_traced(name)] == MODELS


@pytest.mark.parametrize("name", MODELS)
def test_figures_are_those_of_table_4(name):
    paper, ours = PAPER.models[name].table_4, counted(name)
    assert ours.operators == pytest.approx(paper.operators, rel=0.05)
    assert ours.tensor_operations == pytest.approx(paper.tensor_flops, rel=0.04)
    if name != "megatron-2.5b":  # The paper repeats the digits of the tensor FLOPs.
        assert ours.vector_operations == pytest.approx(paper.vector_flops, rel=0.05)
    element_bytes = 1 if name == "opt-350m" else 2  # OPT's sizes are of elements.
    assert element_bytes * ours.activation_elements / GIB * 1000 == pytest.approx(paper.activation_mb, rel=0.09)
    if name != "gpt2-xl":  # The paper's are of the embeddings.
        assert element_bytes * ours.parameters / GIB * 1000 == pytest.approx(paper.parameter_mb, rel=0.07)


@pytest.mark.parametrize("name", ["bert-large", "gpt2-xl", "megatron-bert"])
def test_three_counts_are_exactly_the_papers(name):
    assert counted(name).operators == PAPER.models[name].table_4.operators


def test_bert_has_the_nodes_that_torch_fx_gives():
    """A layer written as in Hugging Face's BERT, traced with torch.fx itself."""
    torch = pytest.importorskip("torch")
    from torch import fx, nn

    class Layer(nn.Module):
        def __init__(self, hidden=8, heads=2):
            super().__init__()
            self.heads, self.width = heads, hidden // heads
            self.query, self.key, self.value, self.dense = (nn.Linear(hidden, hidden) for _ in range(4))
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
            self.norms, self.dropout, self.gelu = nn.ModuleList([nn.LayerNorm(hidden)] * 2), nn.Dropout(), nn.GELU()

        def split(self, x):
            return x.view(x.size()[:-1] + (self.heads, self.width)).permute(0, 2, 1, 3)  # noqa: RUF005

        def forward(self, x, mask):
            query = self.query(x)
            key, value, query = self.split(self.key(x)), self.split(self.value(x)), self.split(query)
            scores = torch.matmul(query, key.transpose(-1, -2)) / self.width**0.5 + mask
            weights = self.dropout(nn.functional.softmax(scores, dim=-1))
            context = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
            context = context.view(context.size()[:-2] + (self.heads * self.width,))  # noqa: RUF005
            x = self.norms[0](self.dropout(self.dense(context)) + x)
            return self.norms[1](self.dropout(self.down(self.gelu(self.up(x)))) + x)

    nodes = [node for node in fx.symbolic_trace(Layer()).graph.nodes if node.op not in ("placeholder", "output")]
    ours = traced_block(model("bert-large"), 1, 1).nodes
    assert len(nodes) == len(ours)
    kinds = Counter(node.kind for node in ours)
    methods = Counter(node.target for node in nodes if node.op == "call_method")
    assert sum(methods[name] for name in ("view", "permute", "transpose", "contiguous")) == kinds["view"]
    assert 2 * methods["size"] == kinds["index"]
    modules = Counter(node.target.split(".")[0] for node in nodes if node.op == "call_module")
    assert (modules["dropout"], modules["norms"], modules["gelu"]) == tuple(
        kinds[kind] for kind in ("dropout", "layer_norm", "relu")
    )


def kinds(nodes):
    return [[each.node.kind, *(taken.kind for taken in each.taken_in)] for each in nodes.values()]


def test_a_product_takes_in_a_chain_up_to_a_softmax():
    trace = Trace()
    at = trace.node("matmul", (4, 4), inner=2)
    for kind in ("divide", "add", "softmax", "dropout"):
        at = trace.node(kind, (4, 4), at)
    assert kinds(fused(trace.nodes)) == [["matmul", "divide", "add"], ["softmax"], ["dropout"]]


def test_nothing_is_fused_that_reads_another_node_of_the_layer_or_is_read_twice():
    trace = Trace()
    product = trace.node("matmul", (4, 4), inner=2)
    other = trace.node("index", (4, 4))
    trace.node("add", (4, 4), product, other)
    assert len(fused(trace.nodes)) == 3
    trace = Trace()
    product = trace.node("matmul", (4, 4), inner=2)
    trace.node("add", (4, 4), product)
    trace.node("relu", (4, 4), product)
    assert len(fused(trace.nodes)) == 3


def test_elementwise_work_takes_in_no_activation():
    trace = Trace()
    added = trace.node("add", (4, 4))
    multiplied = trace.node("multiply", (4, 4), added)
    trace.node("tanh", (4, 4), multiplied)
    assert kinds(fused(trace.nodes)) == [["add", "multiply"], ["tanh"]]


@pytest.mark.parametrize("name", MODELS)
def test_operators_do_the_work_of_the_nodes(name):
    hyper = model(name)
    width = max(hyper.tensor_parallel)
    trace = traced_block(hyper, 2, width)
    block = layer("block", trace, width, RECIPE)
    # Multiply-accumulates of both passes, and FLOPs of one: a multiply and an add are two.
    assert block.forward.flops == block.backward.flops == figures(trace).tensor_operations
    products = sum(node.kind in PRODUCTS for node in trace.nodes)
    for graph in (block.forward, block.backward):
        assert sum(isinstance(operator.operation, Gemm | Fused) for operator in graph) == products
    reduced = [
        sum(isinstance(each.operation, Collective) for each in graph) for graph in (block.forward, block.backward)
    ]
    head = name in ("megatron-2.5b", "megatron-8.3b", "gpt3-175b")
    assert reduced == ([2 + 3 * head, 2 + head] if width > 1 else [0, 0])


def test_work_waits_across_nodes_that_take_no_time():
    trace = Trace()
    first = trace.node("matmul", (4, 4), inner=2)
    last = trace.node("softmax", (4, 4), trace.view((16,), trace.number(first)))
    trace.node("dropout", (4, 4), last)
    block = layer("block", trace, 1, RECIPE)
    assert block.forward.edges == ((0, 1), (1, 2))
    assert [each.name for each in block.backward] == [each.name for each in reversed(block.forward.operators)]


def test_the_head_is_a_part_of_every_gpt_block():
    hyper = model("megatron-2.5b")
    whole, bare = figures(megatron.gpt(hyper, 1, 1)), figures(megatron.bert(hyper, 1, 1))
    assert whole.operators - bare.operators == 43
    logits = 2 * hyper.sequence * hyper.hidden * hyper.vocabulary
    assert whole.tensor_operations - bare.tensor_operations == logits


def test_scores_count_the_columns_of_their_result():
    hyper = model("megatron-bert")
    block = traced_block(hyper, 1, 1)
    scores, context = (node for node in block.nodes if node.kind == "bmm")
    assert scores.rows * scores.columns * scores.inner == hyper.heads * hyper.sequence**3
    assert context.rows * context.columns * context.inner == hyper.heads * hyper.sequence * hyper.head_width**2


def test_a_traced_model_is_a_chain_of_equal_blocks_without_head():
    graph = TracedModel(model("gpt3-175b")).graph(1, 8, RECIPE)
    assert len(graph.layers) == 98
    assert len(set(map(id, graph.layers[1:-1]))) == 1
    assert len(graph.layers[-1].forward) == 0 == graph.layers[-1].weight_bytes
    assert [edge[:2] for edge in graph.edges] == list(pairwise(range(98)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"models": ("bert-large",)}, "and require --cost-model phaze-2024"),
        ({"models": ("llama2-7b",), "cost_model": "phaze-2024"}, "only the models of PHAZE's Table 4"),
        (
            {"models": ("docs/examples/model.py:vision_language",), "cost_model": "phaze-2024"},
            "the published tool does not trace imported models",
        ),
        ({"models": ("bert-large",), "plans": "modern"}, "trace requires --plans phaze"),
    ],
)
def test_what_has_no_traced_layers_is_refused(options, expected):
    options = CodesignOptions(granularity="trace", **options)
    with pytest.raises(InputError) as refused:
        modern_problem(options) if options.plans == "modern" else options.problem()
    assert expected in str(refused.value)


def refusal(tmp_path, built_in, **changes):
    """How ``dse codesign`` refuses a built-in model with ``changes``."""
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump({"schema": "dse.model/1", **model(built_in).model_dump(mode="json"), **changes}))
    with pytest.raises(InputError) as refused:
        CodesignOptions(models=(str(path),), granularity="trace", cost_model="phaze-2024").problem()
    text = str(refused.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"activation": "silu_gated"}, "activation: silu_gated: must be gelu"),
        ({"normalisation": "rms_norm"}, "normalisation: rms_norm: must be layer_norm"),
        ({"norm_placement": "post"}, "norm_placement: post: must be pre"),
        ({"biases": False}, "biases: "),
        ({"positions": "none", "position_rows": 0}, "positions: none: must be learned"),
        ({"head": "pooler"}, "head: pooler: must be causal_lm"),
        ({"kv_heads": 5}, "kv_heads: 5: must be 25"),
        ({"hidden": 3200}, "hidden: 3200: must be 1600"),
        ({"layers": 12}, "layers: 12: must be 48"),
        ({"dropout": 0.0}, "dropout: "),
        ({"tied_embeddings": False}, "tied_embeddings: "),
    ],
)
def test_another_model_of_the_name_is_refused(changes, expected, tmp_path):
    text = refusal(tmp_path, "gpt2-xl", **changes)
    assert expected in text
    assert "built-in gpt2-xl" in text


def test_a_llama_that_is_called_gpt2_is_refused(tmp_path):
    assert "must be" in refusal(tmp_path, "llama2-7b", name="gpt2-xl")


def test_whole_blocks_are_not_sliced(tmp_path):
    changes = {"tensor_parallel": [1, 16]}
    text = refusal(tmp_path, "opt-350m", **changes)
    assert "tensor_parallel: 16: must be 1 with --granularity trace" in text
    with pytest.raises(InputError, match="must be 1"):
        traced_block(model("opt-350m"), 1, 16)


def test_a_copy_with_another_source_and_placement_is_traced(tmp_path):
    path = tmp_path / "copy.yaml"
    document = model("megatron-bert").model_dump(mode="json") | {"source": "", "expert_placement": None}
    path.write_text(yaml.safe_dump({"schema": "dse.model/1", **document, "tensor_parallel": [1, 16]}))
    (job,) = CodesignOptions(models=(str(path),), granularity="trace", cost_model="phaze-2024").problem().jobs
    assert isinstance(job.workload, TracedModel)


def test_answers_with_traced_layers_pass_the_check(dse, tmp_path):
    arguments = ("--cost-model", "phaze-2024", "--granularity", "trace", "--microbatch", "4", "--fixed", "tpuv4-phaze")
    answer = dse("codesign", "megatron-bert", *arguments, "--hbm-gb", "32", "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert dse("check", tmp_path / "run" / "result.json").code == 0

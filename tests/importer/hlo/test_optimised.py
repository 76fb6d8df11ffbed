"""HLO after optimisation: fusions inlined, custom calls counted, and the products of the step before it."""

import json

import pytest

from dse.graph.step_work import flops_of
from dse.importer.hlo.file import read_module
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.prices import work_of
from dse.parallel.storage import Storage
from tests.parallel.problems import DEVICE, DUMPS

GPU = """HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, \
entry_computation_layout={(f32[64,32]{1,0}, bf16[8,64]{1,0:T(8,128)(2,1)})->(f32[64,32]{1,0}, f32[])}, \
frontend_attributes={fingerprint_before_lhs="ab, {c}"}, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%fused_computation (p0: f32[8,32], p1: f32[]) -> f32[8,32] {
  %p0 = f32[8,32]{1,0} parameter(0)
  %p1 = f32[] parameter(1)
  %spread = f32[8,32]{1,0} broadcast(%p1), dimensions={}
  ROOT %larger = f32[8,32]{1,0} maximum(%p0, %spread), metadata={op_name="jit(step)/max" source_file="a, b"}
}

%fused_reduce (p0.1: f32[8,32], p1.1: f32[]) -> (f32[], f32[8,32]) {
  %p0.1 = f32[8,32]{1,0} parameter(0)
  %p1.1 = f32[] parameter(1)
  %reduced = f32[] reduce(%p0.1, %p1.1), dimensions={0,1}, to_apply=%add
  ROOT %both = (f32[], f32[8,32]{1,0}) tuple(%reduced, /*index=1*/%p0.1)
}

ENTRY %main (w: f32[64,32], x: bf16[8,64]) -> (f32[64,32], f32[]) {
  %w = f32[64,32]{1,0:S(1)} parameter(0), sharding={devices=[2,1]<=[2]}, metadata={op_name="params['w']"}
  %x = bf16[8,64]{1,0:T(8,128)(2,1)} parameter(1), sharding={replicated}, metadata={op_name="batch"}
  %wide = f32[8,64]{1,0} convert(%x)
  %gemm = (f32[8,32]{1,0}, s8[4194304]{0}) custom-call(%wide, %w), custom_call_target="__cublas$gemm", \
operand_layout_constraints={f32[8,64]{1,0}, f32[64,32]{1,0}}, backend_config={"operation_queue_id":"0",\
"gemm_backend_config":{"alpha_real":1,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]},"epilogue":"DEFAULT"}}
  %product = f32[8,32]{1,0} get-tuple-element(%gemm), index=0
  %zero = f32[] constant(0)
  %kept = f32[8,32]{1,0} fusion(%product, %zero), kind=kLoop, calls=%fused_computation, \
backend_config={"fusion_backend_config":{"kind":"__triton"}}
  %pair = (f32[], f32[8,32]{1,0}) fusion(%kept, %zero), kind=kInput, calls=%fused_reduce
  %loss = f32[] get-tuple-element(%pair), index=0
  %again = f32[8,32]{1,0} get-tuple-element(%pair), index=1
  %gradient = f32[64,32]{1,0} dot(%wide, %again), lhs_contracting_dims={0}, rhs_contracting_dims={0}, \
operand_precision={highest,highest}
  %joined = f32[64,32]{1,0} all-reduce(%gradient), channel_id=1, replica_groups=[1,2]<=[2], \
use_global_device_ids=true, to_apply=%add
  %new = f32[64,32]{1,0} subtract(%w, %joined)
  ROOT %out = (f32[64,32]{1,0}, f32[]) tuple(%new, %loss)
}
"""


def flops_in(graph):
    return sum(each.repeats * flops_of(each, graph.values) for each in graph.operations)


def graph_of(path):
    return step_graph(read_module(path), path)


def same_step(optimised, plain):
    """Whether both take the same arguments in the same roles and return the same arrays."""
    arguments = [
        [(each.name, each.role, graph.values[each.value].dims) for each in graph.arguments]
        for graph in (optimised, plain)
    ]
    assert arguments[0] == arguments[1]
    results = [[graph.values[each].dims for each in graph.results] for graph in (optimised, plain)]
    assert results[0] == results[1]
    assert {"fusion", "call", "tuple", "while", "conditional"}.isdisjoint(each.opcode for each in optimised.operations)


# XLA for CPUs makes a product with one column a sum, and the gradient of a convolution in four groups one without any,
# which is four times the work.
@pytest.mark.parametrize(("name", "difference"), [("vgg-tiny", 0), ("rare", 3 * 589_824 - 2 * 8 * 5)])
def test_a_step_after_optimisation_is_the_same_step(name, difference):
    optimised, plain = graph_of(DUMPS / f"{name}.opt.hlo"), graph_of(DUMPS / f"{name}.hlo")
    same_step(optimised, plain)
    assert flops_in(optimised) == flops_in(plain) + difference


@pytest.mark.parametrize(("name", "difference"), [("t5-tiny", 0), ("dlrm-tiny", -2 * 16 * 256)])
def test_what_xla_compiles_has_the_products_of_the_step(tmp_path, name, difference):
    pytest.importorskip("jax")
    from benchmarks.hlo.steps import write

    write(name, tmp_path, optimised=True)
    optimised, plain = graph_of(tmp_path / f"{name}.opt.hlo"), graph_of(tmp_path / f"{name}.hlo")
    same_step(optimised, plain)
    assert flops_in(optimised) == flops_in(plain) + difference


def test_the_text_for_gpus_is_read():
    graph = step_graph(parse_hlo(GPU, "gpu"), "gpu")
    assert [each.opcode for each in graph.operations] == [
        "convert", "custom-call", "constant", "broadcast", "maximum", "reduce", "dot", "all-reduce", "subtract",
    ]  # fmt: skip
    assert [(each.name, each.role) for each in graph.arguments] == [("params['w']", "parameter"), ("batch", "input")]
    call = graph.operations[1]
    assert [graph.values[each].dims for each in call.results] == [(8, 32), (4194304,)]
    dot = graph.operations[6]
    assert graph.values[dot.operands[1]].name == "larger"
    assert not graph.notes


def test_a_kernel_reads_an_array_once_and_stores_what_leaves_it():
    graph = step_graph(parse_hlo(GPU, "gpu"), "gpu")
    storage = Storage(graph)
    stored = {each.name for each, kept in zip(graph.values, storage.stored, strict=True) if kept}
    assert {"wide", "larger", "reduced", "gradient", "joined", "new"} <= stored
    assert "spread" not in stored
    names = ["maximum", "reduce"]
    read = {each.opcode: row for each, row in zip(graph.operations, storage.read, strict=True) if each.opcode in names}
    assert read == {"maximum": (True, False), "reduce": (True, True)}


@pytest.mark.parametrize(("name", "accessed"), [("vgg-tiny", 2_636_604), ("t5-tiny", None), ("bert-tiny", None)])
def test_bytes_of_kernels_are_those_that_xla_counts(tmp_path, name, accessed):
    """``bytes accessed`` of XLA's cost analysis (JAX 0.10.2, CPU), which counts the making of constants as well, and
    whole arrays where a part is looked up or written.
    """
    path = DUMPS / f"{name}.opt.hlo"
    if accessed is None:
        pytest.importorskip("jax")
        from benchmarks.hlo.steps import lowered

        compiled, path = lowered(name).compile(), tmp_path / "step.hlo"
        path.write_text(compiled.as_text())
        accessed = compiled.cost_analysis()["bytes accessed"]
    graph = graph_of(path)
    storage = Storage(graph)
    sizes = [each.size_bytes for each in graph.values]
    work = [
        work_of(each, graph.values, DEVICE, sizes, row, storage.stored)
        for each, row in zip(graph.operations, storage.read, strict=True)
    ]
    counted = sum(each.repeats * (sum(each.operands) + sum(each.results)) for each in work)
    assert 0.94 * accessed < counted < accessed


def test_custom_calls_are_blocked_and_counted(dse, tmp_path):
    (tmp_path / "gpu.hlo").write_text(GPU)
    answer = dse("parallel", tmp_path / "gpu.hlo", "--mesh", "2", "--json")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert result["metrics"]["whole_operations"] == [
        {"opcode": "custom-call __cublas$gemm", "count": 1, "flops": 2 * 8 * 32 * 64, "names": ["gemm.0"]}
    ]
    assert "gemm" not in result["solution"]["operations"]
    rare = dse("parallel", DUMPS / "rare.opt.hlo", "--mesh", "2", "--method", "linkage", "--json")
    whole = json.loads(rare.out)["metrics"]["whole_operations"]
    assert [(each["opcode"], each["count"]) for each in whole] == [
        ("custom-call lapack_sgeqrf_ffi", 1),
        ("custom-call lapack_sorgqr_ffi", 1),
    ]
    assert all(each["flops"] for each in whole)

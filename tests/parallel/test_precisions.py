"""Products are priced by the type of their operands."""

import pytest

from dse.graph.step_work import computing_s, flops_of, product_of
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.json_form import module_from_document
from dse.importer.hlo.stablehlo import parse_stablehlo
from dse.importer.hlo.text import parse_hlo
from dse.parallel.check import account
from dse.parallel.formats import plan_document, stated_from_document
from dse.parallel.inputs import device_of
from dse.parallel.prices import Prices
from dse.parallel.resharding import PICO
from dse.parallel.solve import solve
from hardware.chips import chip
from tests.parallel.problems import problem

SIZE = 2048
TWO_PRODUCTS = """HloModule products
ENTRY step {
  w = TYPE[SIZE,SIZE] parameter(0)
  x = TYPE[SIZE,SIZE] parameter(1)
  h = TYPE[SIZE,SIZE] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}PRECISION
  ROOT y = TYPE[SIZE,SIZE] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}PRECISION
}
"""
WORK_FLOPS = 2 * 2 * SIZE**3


def graph_of(element_type, precision=""):
    text = TWO_PRODUCTS.replace("TYPE", element_type).replace("SIZE", str(SIZE)).replace("PRECISION", precision)
    return step_graph(parse_hlo(text, "step.hlo"), "step.hlo")


def work_s(graph, name, f32_products="stated"):
    """By the search; the independent check has to say the same."""
    device = device_of(chip(name), f32_products)
    step = problem(graph, "1", device=device)
    prices = Prices(step)
    solution = solve(step, prices, "exact", 0)
    checked = account(step, stated_from_document(step, plan_document(step, prices, solution.plan), ""))
    assert not checked.faults
    assert checked.step_ps == solution.value
    return checked.work_ps * PICO


@pytest.mark.parametrize(
    ("name", "element_type", "f32_products", "tflops"),
    [
        ("v100", "f32", "stated", 15.7),
        ("v100", "f16", "stated", 125.3),
        ("v100", "f64", "stated", 7.8),
        ("h100-sxm", "f32", "stated", 494.7),
        ("h100-sxm", "f32", "high", 494.7),
        ("h100-sxm", "f32", "highest", 66.9),
        ("h100-sxm", "bf16", "highest", 989.4),
        ("h100-sxm", "f8e4m3fn", "stated", 1978.9),
        ("h100-sxm", "s8", "stated", 1978.9),
        ("tpuv4", "f32", "stated", 275),
        ("tpuv4", "f32", "highest", 45.8),
    ],
)
def test_a_step_of_two_products_takes_what_the_data_sheet_says(name, element_type, f32_products, tflops):
    assert work_s(graph_of(element_type), name, f32_products) == pytest.approx(WORK_FLOPS / tflops / 1e12, rel=2e-3)


@pytest.mark.parametrize(
    ("stated", "tflops"),
    [
        ("", 494.7),
        (", operand_precision={default,default}", 494.7),
        (", operand_precision={high,high}", 494.7),
        (", operand_precision={highest,default}", 66.9),
        (", algorithm=dot_f32_f32_f32", 66.9),
        (", algorithm=dot_tf32_tf32_f32", 494.7),
        (", algorithm=dot_bf16_bf16_f32", 989.4),
        (", algorithm=dot_bf16_bf16_f32_x6", 989.4 / 6),
    ],
)
def test_what_the_step_states_of_its_precision_counts(stated, tflops):
    assert work_s(graph_of("f32", stated), "h100-sxm") == pytest.approx(WORK_FLOPS / tflops / 1e12, rel=2e-3)


def test_mixed_operands_run_at_the_rate_of_the_widest():
    text = """HloModule mixed
ENTRY step {
  w = f32[2048,2048] parameter(0)
  x = bf16[2048,2048] parameter(1)
  ROOT y = f32[2048,2048] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}PRECISION
}
"""
    text = text.replace("PRECISION", ", operand_precision={highest,highest}")
    graph = step_graph(parse_hlo(text, "mixed.hlo"), "mixed.hlo")
    assert work_s(graph, "h100-sxm") == pytest.approx(2 * 2048**3 / 66.9e12, rel=2e-3)


def test_complex_products_are_four_real_ones():
    assert flops_of(graph_of("c64").operations[0], graph_of("c64").values) == 4 * 2 * SIZE**3
    assert work_s(graph_of("c64"), "v100") == pytest.approx(4 * WORK_FLOPS / 15.7e12, rel=2e-3)


@pytest.mark.parametrize("strategy", ["sharding", "pipeline", "hybrid"])
def test_a_type_without_a_rate_is_refused_with_the_nearest_format(dse, tmp_path, strategy):
    text = TWO_PRODUCTS.replace("TYPE", "bf16").replace("SIZE", "64").replace("PRECISION", "")
    (tmp_path / "step.hlo").write_text(text)
    answer = dse("parallel", tmp_path / "step.hlo", "--mesh", "2", "--accelerator", "v100", "--strategy", strategy)
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert "line 5: h (dot): v100 has no rate for products of bf16; the nearest format" in line
    assert "fp16" in line


def test_partitions_price_products_by_their_type_as_well(tmp_path):
    from dse.partition.options import PartitionOptions, question_of

    busy = {}
    for element_type in ("f32", "bf16", "s8"):
        text = TWO_PRODUCTS.replace("TYPE", element_type).replace("SIZE", "256").replace("PRECISION", "")
        (tmp_path / "step.hlo").write_text(text)
        question = question_of(PartitionOptions(source=str(tmp_path / "step.hlo"), package="mcm-36"))
        launch_s = question.package.launch_s
        busy[element_type] = question.problem.graph.latency_s[-1] - launch_s
    assert busy["f32"] == pytest.approx(4 * busy["bf16"]) == pytest.approx(2 * 256**3 / 0.5e12)
    assert busy["s8"] == pytest.approx(busy["bf16"] / 2)


def test_a_package_without_a_rate_refuses_the_step(dse, tmp_path):
    (tmp_path / "step.hlo").write_text(
        TWO_PRODUCTS.replace("TYPE", "f32").replace("SIZE", "64").replace("PRECISION", "")
    )
    answer = dse("partition", tmp_path / "step.hlo", "--package", "coral-8")
    assert answer.code == 2
    assert (
        "h: fp32: coral-8 has no rate for products of fp32; the nearest format that it has a rate for is fp8"
        in answer.err
    )


STABLE = """module @m {
  func.func public @main(%arg0: tensor<8x8xf32>, %arg1: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
"""  # noqa: E501


def test_stablehlo_and_json_state_it_in_their_own_words():
    graph = step_graph(parse_stablehlo(STABLE, "m.mlir"), "m.mlir")
    assert [product_of(each, graph.values)[1:] for each in graph.operations] == [("highest", 1), ("highest", 3)]
    assert product_of(graph.operations[1], graph.values)[0] == ("bf16",)
    shape = {"elementType": "F32", "dimensions": ["8", "8"]}
    dot = {
        "name": "d", "opcode": "dot", "shape": shape, "id": "3", "operandIds": ["1", "2"],
        "dotDimensionNumbers": {"lhsContractingDimensions": ["1"], "rhsContractingDimensions": ["0"]},
        "precisionConfig": {"operandPrecision": ["HIGH", "HIGH"], "algorithm": "ALG_UNSET"},
    }  # fmt: skip
    parameters = [
        {"name": name, "opcode": "parameter", "shape": shape, "id": str(number + 1), "parameterNumber": str(number)}
        for number, name in enumerate("ab")
    ]
    document = {
        "name": "m",
        "entryComputationName": "e",
        "computations": [{"name": "e", "id": "9", "rootId": "3", "instructions": [*parameters, dot]}],
    }
    graph = step_graph(module_from_document(document, "m.json"), "m.json")
    assert product_of(graph.operations[0], graph.values) == (("fp32", "fp32"), "high", 1)


@pytest.mark.parametrize(("allowed", "dot", "convolution"), [(False, 19.5, 19.5), (True, 156, 156)])
def test_pytorchs_own_settings_say_how_it_computes_float32(allowed, dot, convolution):
    torch = pytest.importorskip("torch")
    from dse.sources.steps import resolve_step, step_of

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.linear = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 2)

        def forward(self, image):
            return self.linear(self.convolution(image).mean((2, 3))).sum()

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        graph = step_of(resolve_step((Net(), (torch.zeros(2, 3, 8, 8),))))
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
    rates = chip("a100-sxm").products
    for each in graph.operations:
        if flops := flops_of(each, graph.values):
            expected = {"dot": dot, "convolution": convolution}[each.opcode]
            assert flops / computing_s(each, graph.values, rates) == pytest.approx(expected * 1e12)

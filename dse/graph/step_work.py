"""What an operation of a step computes, and how fast a chip computes it.

Counted are the operations whose work outgrows the arrays that they read: matrix products and convolutions, a
multiplication and an addition as two (as four of each in complex numbers), also where a library's kernel stands for
them; of Fourier transforms of n points 5 n log2(n); of factorisations of n × n matrices n³/3 (Cholesky) and, with r
rows of right-hand sides, n²r (triangular solve). All others are as fast as memory.
"""

import re
from collections.abc import Mapping, Sequence
from math import log2, prod
from types import MappingProxyType

from dse.graph.step import StepGraph, StepOperation, StepValue
from hardware.inputs import fail
from hardware.product_rates import Float32Precision, MissingRateError, ProductRates

_FORMATS: Mapping[str, str] = MappingProxyType(
    {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "c64": "fp32", "c128": "fp64", "tf32": "fp32",
     "s64": "int64", "u64": "int64", "s32": "int32", "u32": "int32", "s16": "int32", "u16": "int32"}
)  # fmt: skip
"""The format of a chip's rates by XLA's element type; ``f8…`` are fp8, ``f4…`` fp4, all others int8."""

_LABELS = re.compile(r"[\dbf?]+_([\dio?]+)->")
_ALGORITHM = re.compile(r"dot_([a-z]*\d+)_\w+?_\w+?(?:_x(\d))?$")
_FFT_FLOPS = 5
_COMPLEX_FLOPS = 4


def flops_of(operation: StepOperation, values: Sequence[StepValue]) -> int:
    """Floating-point operations of an operation, as above; 0 of one that is as fast as memory."""
    operands = [values[each] for each in operation.operands]
    result = values[operation.results[0]] if operation.results else None
    if result is None or not operands:
        return 0
    is_complex = operands[0].dtype.startswith("c") and operation.opcode != "fft"
    return _real_flops(operation, operands, result) * (_COMPLEX_FLOPS if is_complex else 1)


def _real_flops(operation: StepOperation, operands: Sequence[StepValue], result: StepValue) -> int:
    dims = operands[0].dims
    match operation.opcode:
        case "dot" | "ragged-dot" | "scaled-dot":
            return _product_flops(operation, dims, result.dims)
        case "convolution":
            return _convolution_flops(operation, result.dims, operands[1].dims)
        case "custom-call":
            return _library_flops(operation, operands, result)
        case "fft":
            points = prod(_numbers(operation, "fft_length"))
            transforms = max(prod(dims), prod(result.dims)) // max(points, 1)
            return round(_FFT_FLOPS * transforms * points * log2(points)) if points > 1 else 0
        case "cholesky" if dims:
            return prod(dims) * dims[-1] // 3
        case "triangular-solve" if dims:
            return prod(result.dims) * dims[-1]
    return 0


def _numbers(operation: StepOperation, key: str) -> tuple[int, ...]:
    value = operation.attributes.get(key, ())
    return value if isinstance(value, tuple) else ()


def _product_flops(operation: StepOperation, left: Sequence[int], result: Sequence[int]) -> int:
    inner, ragged = _numbers(operation, "lhs_contracting_dims"), _numbers(operation, "lhs_ragged_dims")
    groups = result[0] if result and {*ragged} & {*inner} else 1  # each row belongs to one group alone
    return 2 * prod(result) // max(groups, 1) * prod(left[dim] for dim in inner)


def _convolution_flops(operation: StepOperation, outputs: Sequence[int], kernel: Sequence[int]) -> int:
    match = _LABELS.match(str(operation.attributes.get("dim_labels", "")))
    return 2 * prod(outputs) * (prod(kernel) // max(kernel[match.group(1).index("o")], 1)) if match else 0


def _library_flops(operation: StepOperation, operands: Sequence[StepValue], result: StepValue) -> int:
    """Of a custom call in which XLA has put a product or a convolution, by the attributes of these."""
    target = str(operation.attributes.get("custom_call_target", ""))
    if len(operands) < 2 or not (
        "dim_labels" in operation.attributes or "lhs_contracting_dims" in operation.attributes
    ):
        return _factorisation_flops(target, [each.dims for each in operands], result.dims)
    first, second = (each.dims for each in operands[:2])
    if "fmha" in target:
        paired = (*_numbers(operation, "rhs_contracting_dims"), *_numbers(operation, "rhs_batch_dims"))
        scores = 2 * prod(first) * prod(size for dim, size in enumerate(second) if dim not in paired)
        return scores * (5 if "Backward" in target else 2)  # scores again, and two gradients of each product
    if "dim_labels" not in operation.attributes:
        return _product_flops(operation, first, result.dims)
    if "BackwardInput" in target:
        return _convolution_flops(operation, first, second)
    if "BackwardFilter" in target:
        return _convolution_flops(operation, second, result.dims)
    return _convolution_flops(operation, result.dims, second)


def _factorisation_flops(target: str, operands: Sequence[Sequence[int]], result: Sequence[int]) -> int:
    """Of a call of LAPACK, or of the library of a GPU with its names (Golub and Van Loan, Matrix Computations)."""
    if not operands or len(operands[0]) < 2:
        return 0
    *batch, rows, columns = operands[0]
    short = min(rows, columns)
    if "potrf" in target:
        return prod(batch) * columns**3 // 3
    if "getrf" in target:
        return prod(batch) * 2 * (rows * columns * short - (rows + columns) * short**2 // 2 + short**3 // 3)
    if "geqrf" in target or "orgqr" in target or "ungqr" in target:
        return prod(batch) * 2 * short**2 * (max(rows, columns) - short // 3)
    return prod(result) * columns if "trsm" in target else 0


def computing_s(operation: StepOperation, values: Sequence[StepValue], rates: ProductRates) -> float:
    """The seconds that a chip of these ``rates`` takes for the operations that :func:`flops_of` counts.

    Raises:
        MissingRateError: the chip has no rate for the types of its operands.
    """
    flops = flops_of(operation, values)
    if not flops:
        return 0.0
    operands, precision, passes = product_of(operation, values)
    return flops * passes / rates.rate(operands, precision)


def product_of(operation: StepOperation, values: Sequence[StepValue]) -> tuple[tuple[str, ...], Float32Precision, int]:
    """How a product is computed: the formats of its operands, the precision of float32, and the number of passes.

    As the operation states it (``operand_precision``, ``algorithm``), and otherwise by its operands' types.
    """
    if match := _ALGORITHM.match(str(operation.attributes.get("algorithm", ""))):
        return (format_of(match.group(1)),), "high" if match.group(1) == "tf32" else "highest", int(match.group(2) or 1)
    types = tuple(format_of(values[each].dtype) for each in operation.operands[:2])
    if operation.opcode in ("fft", "cholesky", "triangular-solve"):
        return types[:1], "highest", 1
    stated = str(operation.attributes.get("operand_precision", "")).lower()
    return types, "highest" if "highest" in stated else "high" if "high" in stated else "default", 1


def format_of(element_type: str) -> str:
    """The format of a chip's rates for elements of a type of XLA."""
    for prefix, product_format in (("f8", "fp8"), ("f4", "fp4")):
        if element_type.startswith(prefix):
            return product_format
    return _FORMATS.get(element_type, "int8")


def require_rates(graph: StepGraph, rates: ProductRates, file: str) -> None:
    """Refuse a step that computes in a format for which the chip has no rate.

    Raises:
        InputError: about ``file``, at the first such operation.
    """
    for number, operation in enumerate(graph.operations):
        try:
            computing_s(operation, graph.values, rates)
        except MissingRateError as error:
            value = graph.values[operation.results[0]]
            place = graph.places[number] if graph.places else value.name
            raise fail(file, place, f"{value.name} ({operation.opcode})", str(error)) from error

"""What every strategy of ``dse parallel`` is given: the step that the options name, and the device."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dse.graph.step import StepGraph
from dse.graph.step_work import require_rates
from dse.parallel.options import Float32Products, ParallelOptions
from dse.parallel.problem import Device
from dse.sharding.factors import Factor
from dse.sharding.hlo.table import step_factors
from dse.sources.steps import resolve_step, step_of, with_variables
from hardware.chips import Chip
from hardware.inputs import fail

Rules = tuple[tuple[Factor, ...] | None, ...]
"""Of each operation its factors, as :func:`~dse.sharding.hlo.table.step_factors` has them."""


def named_step(options: ParallelOptions, device: Device) -> tuple[str, StepGraph, Rules]:
    """What errors call the step that the options name, its graph, and the factors of its operations.

    Raises:
        InputError: whatever is wrong with the step or an operation of it, one without arguments, or one with products
            that ``device`` has no rate for.
    """
    source = resolve_step(options.step)
    graph = step_of(source)
    if not graph.arguments:
        raise fail(source.where, "", "", "must have arguments to split, but has none")
    if options.variables is not None:
        graph = with_variables(graph, options.variables)
    rules = step_factors(graph, source.where)  # first: only what keeps its rule has a price
    require_rates(graph, device.products, source.where)
    return source.where, graph, rules


def roles_note(graph: StepGraph) -> str:
    """For users: what each argument was taken for."""
    texts = {"parameter": "trained", "state": "kept between steps, such as optimizer state", "input": "data"}
    parts = []
    for role, text in texts.items():
        names = [argument.name for argument in graph.arguments if argument.role == role]
        if names:
            more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
            parts.append(f"{len(names):,} {text} ({', '.join(names[:_MAX_NAMES])}{more})")
    return f"Arguments by their use in the step: {'; '.join(parts)}. Use --variables FILE to state the trained ones."


_MAX_NAMES = 3


def device_of(chosen: Chip, f32_products: Float32Products = "stated") -> Device:
    """Sustained rates: those of the spec, by the shares that its timed products and its other kernels sustain.

    ``f32_products`` says how all products of float32 are computed; ``stated``: as each of them says.
    """
    rates = chosen.products.sustained(chosen.product_share)
    return Device(
        chosen.name,
        replace(rates, float32=None if f32_products == "stated" else f32_products),
        chosen.hbm_bytes_per_s * chosen.memory_share,
        chosen.hbm_bytes,
    )


def device_document(device: Device) -> list[Any]:
    """The rates of a device in JSON types, for the digest of a problem."""
    return [dict(device.products.flops_per_s), device.products.float32, device.bytes_per_s]


def document_of_step(graph: StepGraph) -> dict[str, Any]:
    """What a step is, in JSON types, for the digest of a problem."""
    return {
        "values": [[value.dtype, list(value.dims), value.constant] for value in graph.values],
        "operations": [
            [each.opcode, list(each.operands), list(each.results), _plain(each.attributes), each.repeats]
            for each in graph.operations
        ],
        "arguments": [[each.value, each.name, each.role] for each in graph.arguments],
        "results": list(graph.results),
    }


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()}

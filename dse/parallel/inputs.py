"""What every strategy of ``dse parallel`` is given: the step that the options name, and the device."""

from collections.abc import Mapping
from typing import Any

from dse.graph.step import StepGraph
from dse.parallel.options import ParallelOptions
from dse.parallel.problem import Device
from dse.sources.steps import resolve_step, step_of, with_variables
from hardware.inputs import fail
from hardware.specs import Accelerator


def named_step(options: ParallelOptions) -> tuple[str, StepGraph]:
    """What errors call the step that the options name, and its graph.

    Raises:
        InputError: whatever is wrong with the step, or one without arguments.
    """
    source = resolve_step(options.step)
    graph = step_of(source)
    if not graph.arguments:
        raise fail(source.where, "", "", "must take arguments: without them there is nothing to split")
    if options.variables is not None:
        graph = with_variables(graph, options.variables)
    return source.where, graph


def device_of(chosen: Accelerator) -> Device:
    """Sustained rates: those of the spec, by the efficiencies of its matrix products and its other kernels."""
    machines = chosen.machines
    products = machines.kernels.get("gemm")
    others = machines.kernels.get("default")
    macs = int(machines.tensor_cores[0]) * int(machines.core_width[0]) * int(machines.core_depth[0])
    return Device(
        chosen.name,
        2.0 * macs * machines.clock_hz * (products.efficiency if products else 1.0),
        machines.hbm_bytes_per_s * (others.memory_efficiency if others else 1.0),
        chosen.hbm_bytes,
    )


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

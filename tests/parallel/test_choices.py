"""Choices of operations, carried out on devices in numpy: every device ends with the part that the layout says."""

import numpy as np
import pytest

from dse.graph.step import StepOperation, StepValue
from dse.parallel.choices import Cut, choices_of, layouts_of
from dse.parallel.mesh import mesh_of
from dse.parallel.prices import terms_of
from dse.sharding.factors import shapes_of
from dse.sharding.hlo.table import factors_of
from tests.parallel import devices
from tests.sharding import hlo_numpy

OPERATIONS = {
    "product": (
        "dot",
        [(4, 8, 12), (4, 12, 6)],
        (4, 8, 6),
        {"lhs_batch_dims": (0,), "rhs_batch_dims": (0,), "lhs_contracting_dims": (2,), "rhs_contracting_dims": (1,)},
    ),
    "gradient": ("dot", [(4, 8, 6), (4, 8, 12)], (6, 12), {
        "lhs_contracting_dims": (0, 1), "rhs_contracting_dims": (0, 1),
    }),
    "sum": ("add", [(8, 12), (8, 12)], (8, 12), {}),
    "transpose": ("transpose", [(8, 12, 4)], (4, 8, 12), {"dimensions": (2, 0, 1)}),
    "broadcast": ("broadcast", [(12,)], (8, 12), {"dimensions": (1,)}),
    "reshape": ("reshape", [(8, 12)], (8, 4, 3), {}),
}  # fmt: skip


def case_of(name):
    opcode, operands, result, attributes = OPERATIONS[name]
    values = [
        StepValue(str(number), dims, "f32", 4 * int(np.prod(dims))) for number, dims in enumerate((*operands, result))
    ]
    operation = StepOperation(opcode, tuple(range(len(operands))), (len(operands),), attributes, "")
    return operation, values, factors_of(shapes_of(operation, values))


@pytest.mark.parametrize("text", ["4", "data=2,model=2", "data=2,model=4", "data=2,model=3"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_devices_together_compute_the_whole(name, text):
    operation, values, factors = case_of(name)
    mesh, draw = mesh_of(text), np.random.default_rng(1)
    operands = [draw.standard_normal(values[each].dims) for each in operation.operands]
    result = values[operation.results[0]]
    whole = hlo_numpy.run(operation, operands, [result.dims])[0]
    choices = choices_of(factors, [result.dims], mesh)
    assert len(set(choices)) == len(choices) > 1
    for choice in choices:
        layouts = layouts_of(choice, factors, len(operands), 1)
        local = [size // mesh.parts(layouts.before[0], dim) for dim, size in enumerate(result.dims)]
        given = [devices.spread(array, layout, mesh) for array, layout in zip(operands, layouts.operands, strict=True)]
        parts = {
            place: hlo_numpy.run(operation, [each[place] for each in given], [tuple(local)])[0]
            for place in devices.coordinates(mesh)
        }
        for collective in terms_of(choice, factors, layouts, [result.size_bytes], mesh):
            assert collective.size_bytes == 4 * next(iter(parts.values())).size
            if collective.kind == "all_reduce":
                for axis in collective.axes:
                    parts = devices.all_reduce(parts, axis)
            else:
                (axis,) = collective.axes
                parts = devices.reduce_scatter(parts, axis, mesh.axes[axis].size, choice[axis].scattered)
        wanted = devices.spread(whole, layouts.results[0], mesh)
        assert all(np.allclose(parts[place], wanted[place]) for place in wanted), choice


def test_a_factor_is_cut_into_as_many_parts_as_all_its_axes_have_devices():
    _, values, factors = case_of("sum")
    choices = choices_of(factors, [values[-1].dims], mesh_of("data=2,model=4"))
    both = [choice for choice in choices if choice[0].factor == choice[1].factor >= 0]
    assert [choice[0].factor for choice in both] == [0]  # 8 divides by 8, 12 does not


def test_an_axis_of_one_device_cuts_nothing():
    _, values, factors = case_of("sum")
    results = [values[-1].dims]
    alone = choices_of(factors, results, mesh_of("model=4"))
    beside = choices_of(factors, results, mesh_of("data=1,model=4"))
    assert len(alone) > 1
    assert beside == [(Cut(), *choice) for choice in alone]

"""Every factor of every rule, split over devices that run the operation in numpy, gives the undivided result."""

import numpy as np
import pytest

from dse.graph.step import StepOperation
from dse.sharding.factors import RuleError, Shapes
from dse.sharding.hlo.moves import reshaped
from dse.sharding.hlo.table import ELEMENTWISE, factors_of
from tests.sharding.hlo_numpy import BINARY, NEUTRAL, run

CASES = {
    "add": ("add", [(4, 6), (4, 6)], [(4, 6)], {}),
    "tanh": ("tanh", [(4, 6)], [(4, 6)], {}),
    "select by a scalar": ("select", [(), (4, 6), (4, 6)], [(4, 6)], {}),
    "clamp between scalars": ("clamp", [(), (4, 6), ()], [(4, 6)], {}),
    "broadcast": ("broadcast", [(4, 1)], [(2, 4, 6)], {"dimensions": (1, 2)}),
    "broadcast of a scalar": ("broadcast", [()], [(4, 6)], {"dimensions": ()}),
    "transpose": ("transpose", [(2, 4, 6)], [(6, 2, 4)], {"dimensions": (2, 0, 1)}),
    "reshape that splits": ("reshape", [(4, 24)], [(4, 6, 4)], {}),
    "reshape that joins": ("reshape", [(4, 6, 4)], [(24, 4)], {}),
    "reshape across": ("reshape", [(6, 4)], [(4, 6)], {}),
    "reshape with ones": ("reshape", [(1, 4, 1, 6)], [(4, 6, 1)], {}),
    "concatenate": ("concatenate", [(4, 2), (4, 6)], [(4, 8)], {"dimensions": (1,)}),
    "pad": ("pad", [(4, 6), ()], [(4, 12)], {"padding": "0_0x1_0_1"}),
    "slice": ("slice", [(4, 6)], [(4, 2)], {"slice": "{[0:4],[1:5:2]}"}),
    "slice of all": ("slice", [(4, 6)], [(4, 6)], {"slice": "{[0:4],[0:6]}"}),
    "dynamic-slice": ("dynamic-slice", [(4, 6), (), ()], [(4, 2)], {"dynamic_slice_sizes": (4, 2)}),
    "dynamic-update-slice": ("dynamic-update-slice", [(4, 6), (4, 2), (), ()], [(4, 6)], {}),
    "reverse": ("reverse", [(4, 6)], [(4, 6)], {"dimensions": (1,)}),
    "dot": (
        "dot", [(2, 4, 6), (2, 6, 8)], [(2, 4, 8)],
        {"lhs_batch_dims": (0,), "rhs_batch_dims": (0,), "lhs_contracting_dims": (2,), "rhs_contracting_dims": (1,)},
    ),
    "dot of two contractions": (
        "dot", [(4, 2, 6), (6, 8, 2)], [(4, 8)], {"lhs_contracting_dims": (1, 2), "rhs_contracting_dims": (2, 0)},
    ),
    "convolution": (
        "convolution", [(2, 5, 5, 4), (3, 3, 4, 6)], [(2, 5, 5, 6)],
        {"dim_labels": "b01f_01io->b01f", "window": "{size=3x3 pad=1_1x1_1}"},
    ),
    "convolution with strides and dilation": (
        "convolution", [(2, 4, 7), (6, 4, 2)], [(2, 6, 3)],
        {"dim_labels": "bf0_oi0->bf0", "window": "{size=2 stride=2 rhs_dilate=2 pad=0_0}"},
    ),
    "convolution by groups": (
        "convolution", [(2, 5, 4), (3, 2, 6)], [(2, 5, 6)],
        {"dim_labels": "b0f_0io->b0f", "window": "{size=3 pad=1_1}", "feature_group_count": (2,)},
    ),
    "convolution by groups of the batch": (
        "convolution", [(4, 5, 2), (3, 2, 6)], [(2, 3, 6)],
        {"dim_labels": "b0f_0io->b0f", "window": "{size=3}", "batch_group_count": (2,)},
    ),
    "convolution for the gradient of weights": (
        "convolution", [(4, 5, 2), (4, 5, 6)], [(3, 2, 6)],
        {"dim_labels": "f0b_i0o->0bf", "window": "{size=5 pad=1_1}"},
    ),
    "reduce": ("reduce", [(4, 6), ()], [(4,)], {"dimensions": (1,), "combiner": "add"}),
    "reduce to a maximum": ("reduce", [(4, 6, 2), ()], [(6,)], {"dimensions": (0, 2), "combiner": "maximum"}),
    "reduce-window": (
        "reduce-window", [(2, 4, 6), ()], [(2, 2, 6)], {"window": "{size=1x2x1 stride=1x2x1}", "combiner": "maximum"},
    ),
    "select-and-scatter": (
        "select-and-scatter", [(2, 4, 6), (2, 2, 6), ()], [(2, 4, 6)],
        {"window": "{size=1x2x1 stride=1x2x1}", "combiner": "add"},
    ),
    "sort": ("sort", [(4, 6), (4, 6)], [(4, 6), (4, 6)], {"dimensions": (1,)}),
    "cholesky": ("cholesky", [(4, 3, 3)], [(4, 3, 3)], {}),
    "topk": ("topk", [(4, 6)], [(4, 2), (4, 2)], {}),
    "gather of words": (
        "gather", [(8, 6), (2, 4, 1)], [(2, 4, 6)],
        {"offset_dims": (2,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": (2,),
         "slice_sizes": (1, 6)},
    ),
    "gather with batches": (
        "gather", [(4, 8), (4, 2, 1)], [(4, 2)],
        {"offset_dims": (), "collapsed_slice_dims": (1,), "start_index_map": (1,), "index_vector_dim": (2,),
         "slice_sizes": (1, 1), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,)},
    ),
    "gather of windows": (
        "gather", [(8, 6), (4, 2)], [(4, 3, 6)],
        {"offset_dims": (1, 2), "collapsed_slice_dims": (), "start_index_map": (0, 1), "index_vector_dim": (1,),
         "slice_sizes": (3, 6)},
    ),
    "scatter of words": (
        "scatter", [(8, 6), (2, 4, 1), (2, 4, 6)], [(8, 6)],
        {"update_window_dims": (2,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
         "index_vector_dim": (2,), "combiner": "add"},
    ),
    "scatter with batches": (
        "scatter", [(4, 8), (4, 2, 1), (4, 2)], [(4, 8)],
        {"update_window_dims": (), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (1,),
         "index_vector_dim": (2,), "input_batching_dims": (0,), "scatter_indices_batching_dims": (0,),
         "combiner": "add"},
    ),
}  # fmt: skip

EXPECTED = {
    "add": 2, "tanh": 2, "select by a scalar": 2, "clamp between scalars": 2, "broadcast": 3,
    "broadcast of a scalar": 2, "transpose": 3, "reshape that splits": 2, "reshape that joins": 2, "reshape across": 1,
    "reshape with ones": 2, "concatenate": 1, "pad": 1, "slice": 1, "slice of all": 2, "dynamic-slice": 1,
    "dynamic-update-slice": 1, "reverse": 1, "dot": 4, "dot of two contractions": 4, "convolution": 3,
    "convolution with strides and dilation": 3, "convolution by groups": 2, "convolution by groups of the batch": 2,
    "convolution for the gradient of weights": 3, "reduce": 2, "reduce to a maximum": 3, "reduce-window": 2,
    "select-and-scatter": 2, "sort": 1, "cholesky": 1, "topk": 1, "gather of words": 4, "gather with batches": 3,
    "gather of windows": 2, "scatter of words": 4, "scatter with batches": 3,
}  # fmt: skip
"""How many factors there are: a rule that forgets some would pass all other tests."""


def operation_of(case):
    opcode, operands, results, attributes = case
    return StepOperation(opcode, tuple(range(len(operands))), tuple(range(len(results))), attributes, "")


def shapes(case):
    return Shapes(operation_of(case), tuple(case[1]), tuple(case[2]))


def drawn(case, seed=0):
    """Operands by chance; where an operation looks positions up, they lie within what they point into."""
    random = np.random.default_rng(seed)
    opcode, dims, _, attributes = case
    operands = [random.permutation(np.arange(1.0, 1 + np.prod(each))).reshape(each) / 7 for each in dims]
    if opcode in ("gather", "scatter"):
        looked_up = attributes.get("start_index_map", attributes.get("scatter_dims_to_operand_dims"))
        operands[1] = random.integers(0, min(dims[0][dim] for dim in looked_up), dims[1])
    if opcode in ("dynamic-slice", "dynamic-update-slice"):
        operands[-2:] = [np.array(0), np.array(2)]
    if opcode in ("reduce-window", "select-and-scatter", "reduce"):
        operands[-1] = np.array(3.0)
    if opcode == "cholesky":
        operands[0] = operands[0] @ operands[0].transpose(0, 2, 1) + 30 * np.eye(dims[0][-1])
    return operands


def part(array, dims, device, devices):
    """The part of an array that a device has."""
    for dim in dims:
        size = array.shape[dim] // devices
        array = np.take(array, range(device * size, (device + 1) * size), dim)
    return array


def on_device(case, factor, operands, device, devices):
    """What one device computes."""
    parts = [
        part(each, [dim for number, dim in factor.operands if number == position], device, devices)
        for position, each in enumerate(operands)
    ]
    if factor.masked:
        return masked(case, factor, parts, device)
    for number in factor.once:
        if device:
            parts[number] = np.full(parts[number].shape, NEUTRAL[factor.combiner])
    return run(of_groups(operation_of(case), factor, devices), parts, local(case, factor, devices))


def of_groups(operation, factor, devices):
    """A convolution by groups, of which each device has its share."""
    attributes = dict(operation.attributes)
    for key in ("feature_group_count", "batch_group_count"):
        if len(factor.operands) == 2 and not factor.combiner and key in attributes:
            attributes[key] = (attributes[key][0] // devices,)
    return operation._replace(attributes=attributes)


def local(case, factor, devices):
    """The dimensions of a device's results."""
    return [
        tuple(size // devices if (number, dim) in factor.results else size for dim, size in enumerate(dims))
        for number, dims in enumerate(case[2])
    ]


def masked(case, factor, parts, device):
    """Lookups and updates of a part of a table: positions outside it give, or change, nothing."""
    (_, dim), *_ = factor.operands
    size = parts[0].shape[dim]
    index = parts[1] - device * size
    inside = (index >= 0) & (index < size)
    if case[0] == "scatter":
        parts[1] = np.where(inside, index, -(10**6))
        return run(operation_of(case), parts, [parts[0].shape])
    parts[1] = np.where(inside, index, 0)
    (result,) = run(operation_of(case), parts, case[2])
    rows = inside[..., 0]
    return [np.where(rows.reshape(rows.shape + (1,) * (result.ndim - rows.ndim)), result, 0)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("devices", [2, 3])
def test_devices_with_their_parts_of_a_factor_compute_the_whole(name, devices):
    case = CASES[name]
    operands = drawn(case)
    whole = run(operation_of(case), operands, case[2])
    for factor in factors_of(shapes(case)):
        if factor.size % devices:
            continue
        parts = [on_device(case, factor, operands, device, devices) for device in range(devices)]
        for number, expected in enumerate(whole):
            held = [each[number] for each in parts]
            dims = [dim for result, dim in factor.results if result == number]
            if factor.combiner:
                combined = held[0]
                for each in held[1:]:
                    combined = BINARY[factor.combiner](combined, each)
            else:
                (dim,) = dims
                combined = np.concatenate(held, dim)
            np.testing.assert_allclose(combined, expected, err_msg=f"{name}: {factor}")


@pytest.mark.parametrize("name", CASES)
def test_no_factor_is_forgotten(name):
    factors = factors_of(shapes(CASES[name]))
    assert len(factors) == EXPECTED[name], factors
    for side in ("operands", "results"):
        places = [place for factor in factors for place in getattr(factor, side)]
        assert len(places) == len(set(places)), "a dimension stands in one factor"


@pytest.mark.parametrize(("source", "result", "tied"), [
    ((4, 24), (4, 6, 4), [(0, 0, 4), (1, 1, 6)]),
    ((6, 4), (4, 6), [(0, 0, 2)]),
    ((2, 3, 4), (24,), [(0, 0, 2)]),
    ((1, 8), (8, 1), [(1, 0, 8)]),
    ((), (1,), []),
])  # fmt: skip
def test_reshapes_tie_the_outermost_dimensions_of_equal_products(source, result, tied):
    assert list(reshaped(source, result)) == tied


@pytest.mark.parametrize(("name", "operands", "results"), [
    ("add", [(4, 6), (4, 5)], [(4, 6)]),
    ("transpose", [(2, 4, 6)], [(2, 6, 4)]),
    ("reshape that splits", [(4, 25)], [(4, 6, 4)]),
    ("dot", [(2, 4, 6), (2, 5, 8)], [(2, 4, 8)]),
    ("convolution", [(2, 5, 5, 4), (3, 3, 3, 6)], [(2, 5, 5, 6)]),
    ("reduce", [(4, 6), ()], [(6,)]),
    ("gather of words", [(8, 6), (2, 4, 1)], [(2, 6)]),
])  # fmt: skip
def test_shapes_that_disagree_are_refused(name, operands, results):
    opcode, _, _, attributes = CASES[name]
    with pytest.raises(RuleError):
        factors_of(shapes((opcode, operands, results, attributes)))


def test_what_has_no_rule_has_no_factors():
    assert factors_of(shapes(("custom-call", [(4,)], [(4,)], {"custom_call_target": '"lapack"'}))) is None
    assert factors_of(shapes(("partition-id", [], [()], {}))) is None
    assert "add" in ELEMENTWISE

"""Linkage groups: the laws that they must keep, on real steps, and why a group cannot be split."""

import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.sharding.factors import shapes_of
from dse.sharding.hlo.table import factors_of
from dse.sharding.linkage import linkage
from hardware.inputs import InputError


def ties(graph):
    """The non-constant places of every factor of every operation that computes something."""
    for operation in graph.operations:
        if all(graph.values[each].constant for each in operation.results):
            continue
        for factor in factors_of(shapes_of(operation, graph.values)) or ():
            places = [(operation.operands[number], dim) for number, dim in factor.operands]
            places += [(operation.results[number], dim) for number, dim in factor.results]
            yield [place for place in places if not graph.values[place[0]].constant], factor.size


def test_groups_are_the_connected_components_of_the_factors(linked):
    graph, groups = linked
    number = {place: at for at, place in enumerate(groups.group_of)}
    pairs = [(number[places[0]], number[each]) for places, _ in ties(graph) for each in places[1:]]
    matrix = coo_array(([1] * len(pairs), tuple(zip(*pairs, strict=True))), shape=(len(number), len(number)))
    count, components = connected_components(matrix, directed=False)
    assert count == len(groups.groups)
    assert len({(components[at], groups.group_of[place]) for place, at in number.items()}) == count


def test_the_size_of_a_group_divides_all_that_it_ties(linked):
    graph, groups = linked
    for places, size in ties(graph):
        if places:
            group = groups.groups[groups.group_of[places[0]]]
            assert size % group.size == 0
            assert all(graph.values[value].dims[dim] % group.size == 0 for value, dim in group.places)


def test_every_dimension_stands_in_one_group(linked):
    graph, groups = linked
    places = [place for group in groups.groups for place in group.places]
    assert len(places) == len(set(places))
    assert set(places) == {
        (number, dim)
        for number, value in enumerate(graph.values)
        for dim, size in enumerate(value.dims)
        if size > 1 and not value.constant
    }


MODULE = """HloModule m

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
{body}
}}
"""


def linkage_of(*lines):
    graph = step_graph(parse_hlo(MODULE.format(body="\n".join(lines)), "m.hlo"), "m.hlo")
    return graph, linkage(graph, "m.hlo")


def place(graph, name, dim):
    return next(number for number, value in enumerate(graph.values) if value.name == name), dim


def test_shared_constants_link_nothing():
    graph, groups = linkage_of(
        "x = f32[8,4] parameter(0)", "y = f32[4,8] parameter(1)", "zero = f32[] constant(0)",
        "zeros = f32[8,4] broadcast(zero), dimensions={}", "t = f32[4,8] transpose(zeros), dimensions={1,0}",
        "u = f32[8,4] maximum(x, zeros)", "v = f32[4,8] maximum(y, t)", "ROOT r = (f32[8,4], f32[4,8]) tuple(u, v)",
    )  # fmt: skip
    assert len(groups.groups) == 4
    assert groups.group_of[place(graph, "x", 0)] == groups.group_of[place(graph, "u", 0)]
    assert groups.group_of[place(graph, "x", 0)] != groups.group_of[place(graph, "y", 1)]


def test_a_product_says_what_it_reduces_and_what_excludes_what():
    graph, groups = linkage_of(
        "x = f32[8,4] parameter(0)", "w = f32[4,6] parameter(1)",
        "ROOT y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )  # fmt: skip
    inner = groups.groups[groups.group_of[place(graph, "w", 0)]]
    assert [(each.operation, each.combiner) for each in inner.reductions] == [(0, "add")]
    assert len(groups.groups) == 3
    assert len(groups.meetings) == 4  # in x, in w, in y, and all three in the product
    assert groups.factors == (tuple(groups.group_of[place(graph, *each)] for each in (("x", 0), ("w", 1), ("x", 1))),)


def test_a_group_that_meets_itself_cannot_be_split():
    graph, groups = linkage_of(
        "x = f32[8,8] parameter(0)", "t = f32[8,8] transpose(x), dimensions={1,0}", "ROOT y = f32[8,8] add(x, t)"
    )
    (group,) = groups.groups
    assert [graph.values[each].name for each in group.doubled] == ["x", "t", "y"]
    assert not group.allows(2)


def test_a_dimension_that_must_be_whole_names_the_operation():
    graph, groups = linkage_of(
        "x = f32[8,4] parameter(0)", "s = f32[8,4] sort(x), dimensions={1}",
        'ROOT c = f32[8,4] custom-call(s), custom_call_target="f"',
    )  # fmt: skip
    along, across = (groups.groups[groups.group_of[place(graph, "x", dim)]] for dim in (1, 0))
    assert {graph.operations[each.operation].opcode for each in along.obstacles} == {"sort"}
    assert {graph.operations[each.operation].opcode for each in across.obstacles} == {"custom-call"}
    assert groups.unknown == {"custom-call": 1}


def test_sizes_that_cannot_be_cut_into_so_many_parts_are_not():
    _, groups = linkage_of("x = f32[6,4] parameter(0)", "ROOT y = f32[24] reshape(x)")
    sizes = sorted(group.size for group in groups.groups)
    assert sizes == [4, 6]
    assert [group.allows(4) for group in groups.groups if group.size == 6] == [False]


def test_shapes_that_disagree_are_refused_by_the_operation():
    with pytest.raises(InputError, match=r"m.hlo: line 12: y: add: operands must have the result's shape"):
        linkage_of("x = f32[6,4] parameter(0)", "z = f32[6,5] parameter(1)", "ROOT y = f32[6,4] add(x, z)")


@pytest.mark.parametrize(
    "line",
    [
        "ROOT y = f32[4,6] transpose(x), dimensions={1,9}",
        "ROOT y = f32[6,4] reverse()",
        "ROOT y = f32[6] reduce(x, x), dimensions={7}",
        "ROOT y = f32[6,4] dot(x, x), lhs_contracting_dims={0,1}, rhs_contracting_dims={0}",
        "ROOT y = f32[6,4] while(), condition=add, body=add",
        "ROOT y = f32[6,4] conditional(x, x, x), true_computation=add",
        "ROOT y = f32[6,4] get-tuple-element(), index=0",
    ],
)
def test_malformed_operations_are_one_line(line):
    with pytest.raises(InputError, match=r"m.hlo: (y|line \d+: y): "):
        linkage_of("x = f32[6,4] parameter(0)", line)

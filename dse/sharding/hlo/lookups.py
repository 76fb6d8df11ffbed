"""Lookups and updates at positions that are data: gather and scatter."""

from collections.abc import Iterator

from dse.sharding.factors import COMBINERS, Factor, Shapes


def gather(shapes: Shapes) -> Iterator[Factor]:
    """Positions pass; dimensions taken whole pass; of one that is looked up each device has a part, and the rest is 0.

    (The last is the embedding split by words, as Megatron-LM has it.)
    """
    table, indices = shapes.operands[:2]
    (result,) = shapes.results
    offsets, sizes = shapes.integers("offset_dims"), shapes.integers("slice_sizes")
    batching = shapes.integers("operand_batching_dims"), shapes.integers("start_indices_batching_dims")
    collapsed = {*shapes.integers("collapsed_slice_dims"), *batching[0]}
    shapes.require(len(sizes) == len(table), "slice_sizes must have an entry for each dimension")
    positions = [dim for dim in range(len(indices)) if dim != shapes.number("index_vector_dim", len(indices))]
    outside = [dim for dim in range(len(result)) if dim not in offsets]
    shapes.require(
        len(positions) == len(outside) and len(result) == len(positions) + len(offsets),
        "the result must have the dimensions of the indices and the offsets",
    )
    shapes.require(
        all(indices[dim] == result[to] for dim, to in zip(positions, outside, strict=True)),
        "the result must have the sizes of the indices",
    )
    for dim, to in zip(positions, outside, strict=True):
        tied = [(0, batching[0][batching[1].index(dim)])] if dim in batching[1] else []
        yield Factor(indices[dim], (*tied, (1, dim)), ((0, to),))
    taken = [dim for dim in range(len(table)) if dim not in collapsed]
    shapes.require(len(taken) == len(offsets), "offset_dims must be the dimensions that are not collapsed")
    shapes.require(
        all(sizes[dim] == result[to] for dim, to in zip(taken, offsets, strict=True)),
        "the result must have the sizes of the slices",
    )
    for dim, to in zip(taken, offsets, strict=True):
        if sizes[dim] == table[dim] == result[to]:
            yield Factor(table[dim], ((0, dim),), ((0, to),))
    looked_up = shapes.integers("start_index_map")
    for dim in looked_up:
        if dim in collapsed and len(looked_up) == 1 and sizes[dim] == 1:
            yield Factor(table[dim], ((0, dim),), (), "add", masked=True)


def scatter(shapes: Shapes) -> Iterator[Factor]:
    """Whole dimensions of updates pass; positions add up; of a dimension that is indexed each device has a part."""
    if len(shapes.results) != 1:
        return
    (table, indices, updates), (result,) = shapes.operands, shapes.results
    shapes.require(table == result, "the result must have the shape of the updated operand")
    window, inserted = shapes.integers("update_window_dims"), shapes.integers("inserted_window_dims")
    batching = shapes.integers("input_batching_dims"), shapes.integers("scatter_indices_batching_dims")
    written = [dim for dim in range(len(table)) if dim not in inserted and dim not in batching[0]]
    shapes.require(len(written) == len(window), "update_window_dims must be the dimensions that are not inserted")
    for dim, to in zip(written, window, strict=True):
        if updates[to] == table[dim]:
            yield Factor(table[dim], ((0, dim), (2, to)), ((0, dim),))
    outside = [dim for dim in range(len(updates)) if dim not in window]
    positions = [dim for dim in range(len(indices)) if dim != shapes.number("index_vector_dim", len(indices))]
    shapes.require(len(positions) == len(outside), "updates must have the dimensions of the indices")
    shapes.require(
        all(indices[dim] == updates[to] for dim, to in zip(positions, outside, strict=True)),
        "updates must have the sizes of the indices",
    )
    combiner = shapes.text("combiner")
    for dim, to in zip(positions, outside, strict=True):
        if dim in batching[1]:
            along = batching[0][batching[1].index(dim)]
            yield Factor(indices[dim], ((0, along), (1, dim), (2, to)), ((0, along),))
        elif combiner in COMBINERS:
            yield Factor(indices[dim], ((1, dim), (2, to)), (), combiner, once=(0,))
    indexed = shapes.integers("scatter_dims_to_operand_dims")
    for dim in indexed:
        if dim in inserted and len(indexed) == 1:
            yield Factor(table[dim], ((0, dim),), ((0, dim),), masked=True)

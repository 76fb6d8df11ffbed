"""Lookups and updates at positions that are data."""

from collections.abc import Sequence

from dse.importer.torch.aten.call import Call, NotTranslatedError
from dse.importer.torch.aten.views import Dims, View


def embedding(call: Call) -> View:
    """Rows of a table."""
    table, indices = call.tensor("weight"), call.tensor("indices")
    return _rows(call, table, indices, 0)


def embedding_backward(call: Call) -> View:
    """Gradients added to the rows that were looked up."""
    build, indices, gradient = call.build, call.tensor("indices"), call.tensor("grad_output")
    if call.given["scale_grad_by_freq"]:
        raise NotTranslatedError
    if int(call.given["padding_idx"]) >= 0:  # the row of the padding is not trained
        shape, padding = build.shape(indices), build.number(int(call.given["padding_idx"]), build.dtype(indices))
        is_padding = build.elementwise("compare", [indices, padding], shape, "pred", direction="EQ")
        operands = [build.reshape(is_padding, (*shape, 1)), build.number(0, call.dtype), gradient]
        gradient = build.elementwise("select", operands, build.shape(gradient), call.dtype)
    return _added_to_rows(call, build.full(call.shape, 0, call.dtype), indices, gradient, 0, "add")


def index_select(call: Call) -> View:
    """Places along one dimension."""
    source = call.tensor("self")
    return _rows(call, source, call.tensor("index"), call.dim("dim", len(source.groups)))


def index(call: Call) -> View:
    """Places along one dimension, by an array of them."""
    along, indices = _single(call)
    return _rows(call, call.tensor("self"), indices, along)


def index_put(call: Call) -> View:
    """Values written or added at places along one dimension."""
    along, indices = _single(call)
    build, updates = call.build, call.tensor("values")
    index_dims = build.shape(indices)
    shape = (*call.shape[:along], *index_dims, *call.shape[along + 1 :])
    if build.shape(updates) != shape:
        raise NotTranslatedError
    combiner = "add" if call.given["accumulate"] else "other"
    return _added_to_rows(call, call.tensor("self"), indices, updates, along, combiner)


def gather(call: Call) -> View:
    """One element for each position: all dimensions but one go along."""
    source, indices = call.tensor("self"), call.tensor("index")
    rank = len(call.shape)
    along = call.dim("dim", rank)
    others = _alike(call.build.shape(source), call.build.shape(indices), along)
    operands = call.build.written(source), call.build.written(indices)
    return call.build.one(
        "gather", operands, call.shape, call.dtype,
        offset_dims=(), collapsed_slice_dims=(along,), start_index_map=(along,), index_vector_dim=(rank,),
        operand_batching_dims=others, start_indices_batching_dims=others, slice_sizes=(1,) * rank,
    )  # fmt: skip


def scatter(call: Call) -> View:
    """One element written or added at each position."""
    build, source, indices = call.build, call.tensor("self"), call.tensor("index")
    rank, shape = len(call.shape), call.build.shape(indices)
    along = call.dim("dim", rank)
    others = _alike(call.shape, shape, along)
    given = call.given["src"] if "src" in call.given else call.given["value"]
    updates = given if isinstance(given, View) else build.full(shape, given, call.dtype)
    if build.shape(updates) != shape:
        raise NotTranslatedError
    adds = call.name == "scatter_add"
    operands = build.written(source), build.written(indices), build.written(updates)
    return build.one(
        "scatter", operands, call.shape, call.dtype,
        update_window_dims=(), inserted_window_dims=(along,), scatter_dims_to_operand_dims=(along,),
        index_vector_dim=(rank,), input_batching_dims=others, scatter_indices_batching_dims=others,
        combiner="add" if adds else "other",
    )  # fmt: skip


def _alike(source: Dims, indices: Dims, along: int) -> tuple[int, ...]:
    """The dimensions that positions and elements share."""
    others = tuple(dim for dim in range(len(source)) if dim != along)
    if any(source[dim] != indices[dim] for dim in others):
        raise NotTranslatedError
    return others


def _single(call: Call) -> tuple[int, View]:
    """The one dimension that is indexed, and by what."""
    given: Sequence[View | None] = call.given["indices"]
    indexed = [(dim, each) for dim, each in enumerate(given) if each is not None]
    if len(indexed) != 1 or call.build.dtype(indexed[0][1]) == "pred":
        raise NotTranslatedError
    return indexed[0]


def _rows(call: Call, table: View, indices: View, along: int) -> View:
    build = call.build
    dims, count = build.shape(table), len(build.shape(indices))
    rank = len(dims) - 1 + count
    return build.one(
        "gather", (build.written(table), build.written(indices)), call.shape, call.dtype,
        offset_dims=tuple(dim for dim in range(rank) if not along <= dim < along + count),
        collapsed_slice_dims=(along,), start_index_map=(along,), index_vector_dim=(count,),
        slice_sizes=tuple(1 if dim == along else size for dim, size in enumerate(dims)),
    )  # fmt: skip


def _added_to_rows(call: Call, table: View, indices: View, updates: View, along: int, combiner: str) -> View:
    build = call.build
    count = len(build.shape(indices))
    rank = len(build.shape(updates))
    return build.one(
        "scatter", (build.written(table), build.written(indices), build.written(updates)), call.shape, call.dtype,
        update_window_dims=tuple(dim for dim in range(rank) if not along <= dim < along + count),
        inserted_window_dims=(along,), scatter_dims_to_operand_dims=(along,), index_vector_dim=(count,),
        combiner=combiner,
    )  # fmt: skip

"""Operators that move elements."""

from collections.abc import Sequence

from dse.importer.torch.aten.call import Call, NotTranslatedError
from dse.importer.torch.aten.views import Dims, View, permuted, plain


def view(call: Call) -> View:
    """Any operator that gives the elements in another shape, in the same order."""
    return call.build.reshape(call.tensor("self"), call.shape)


def permute(call: Call) -> View:
    """Dimensions in another order."""
    source = call.tensor("self")
    return permuted(source, [int(dim) % len(source.groups) for dim in call.given["dims"]])


def transpose(call: Call) -> View:
    """``t`` and ``transpose``: two dimensions change places."""
    source = call.tensor("self")
    order = list(range(len(source.groups)))
    if call.name == "t":
        return permuted(source, order[::-1])
    first, second = call.dim("dim0", len(order)), call.dim("dim1", len(order))
    order[first], order[second] = second, first
    return permuted(source, order)


def expand(call: Call) -> View:
    """Dimensions of one element repeated, and new ones in front."""
    source = call.tensor("self")
    if call.build.shape(source) == call.shape:
        return source
    value = call.build.broadcast(source, call.shape, plain(0, call.shape).groups)
    if call.build.values[value].dims != call.shape:  # one element
        value = call.build.one("broadcast", (value,), call.shape, call.dtype, dimensions=()).value
    return plain(value, call.shape)


def concatenation(call: Call) -> View:
    """Arrays one behind the other; those without elements are left out."""
    build = call.build
    views: list[View] = [each for each in call.given["tensors"] if 0 not in build.shape(each)]
    if len(views) == 1:
        return views[0]
    along = call.dim("dim", len(call.shape))
    values = [build.written(each) for each in views]
    return build.one("concatenate", values, call.shape, call.dtype, dimensions=(along,))


def stack(call: Call) -> View:
    """Arrays side by side along a new dimension."""
    build, along = call.build, call.dim("dim", len(call.shape))
    shape = tuple(1 if dim == along else size for dim, size in enumerate(call.shape))
    views = [build.reshape(each, shape) for each in call.given["tensors"]]
    if len(views) == 1:
        return views[0]
    values = [build.written(each) for each in views]
    return build.one("concatenate", values, call.shape, call.dtype, dimensions=(along,))


def slice_(call: Call) -> View:
    """Part of one dimension."""
    source = call.tensor("self")
    shape = call.build.shape(source)
    along = call.dim("dim", len(shape))
    start = _bound(call.given.get("start"), shape[along], 0)
    return sliced(call, source, along, start, call.shape[along], int(call.given.get("step") or 1))


def select(call: Call) -> View:
    """One place of a dimension, which goes away."""
    source = call.tensor("self")
    along = call.dim("dim", len(source.groups))
    index = int(call.given["index"]) % call.build.shape(source)[along]
    return call.build.reshape(sliced(call, source, along, index, 1), call.shape)


def split(call: Call) -> tuple[View, ...]:
    """Parts of given sizes along a dimension."""
    source = call.tensor("self")
    along, start, parts = call.dim("dim", len(source.groups)), 0, []
    for shape, _ in call.outputs:
        parts.append(sliced(call, source, along, start, shape[along]))
        start += shape[along]
    return tuple(parts)


def sliced(call: Call, source: View, along: int, start: int, count: int, step: int = 1) -> View:
    """``count`` places along a dimension of ``source``, from ``start``."""
    build = call.build
    if (start, count, step) == (0, build.shape(source)[along], 1):
        return source
    value = build.written(source)
    dims = build.values[value].dims
    ends = [start + (count - 1) * step + 1 if dim == along else size for dim, size in enumerate(dims)]
    ranges = [
        f"[{start}:{end}:{step}]" if dim == along and step != 1 else f"[{start if dim == along else 0}:{end}]"
        for dim, end in enumerate(ends)
    ]
    left = tuple(count if dim == along else size for dim, size in enumerate(dims))
    return build.one("slice", (value,), left, build.dtype(source), slice="{" + ", ".join(ranges) + "}")


def slice_backward(call: Call) -> View:
    """Zeros around what a slice was made of."""
    gradient = call.tensor("grad_output")
    along, step = call.dim("dim", len(call.shape)), int(call.given["step"])
    start = _bound(call.given["start"], call.shape[along], 0)
    return _among_zeros(call, gradient, along, start, step)


def select_backward(call: Call) -> View:
    """Zeros around what one place was."""
    along = call.dim("dim", len(call.shape))
    index = int(call.given["index"]) % call.shape[along]
    shape = tuple(1 if dim == along else size for dim, size in enumerate(call.shape))
    return _among_zeros(call, call.build.reshape(call.tensor("grad_output"), shape), along, index, 1)


def _among_zeros(call: Call, source: View, along: int, start: int, step: int) -> View:
    count = call.build.shape(source)[along]
    after = call.shape[along] - start - (count - 1) * step - 1
    paddings = [(0, 0, 0)] * len(call.shape)
    paddings[along] = (start, after, step - 1)
    return padded(call, source, paddings, 0, call.shape)


def pad(call: Call) -> View:
    """A constant around an array."""
    given = [int(each) for each in call.given["pad"]]
    paddings = [(0, 0, 0)] * len(call.shape)
    for number in range(len(given) // 2):
        paddings[-1 - number] = (given[2 * number], given[2 * number + 1], 0)
    return padded(call, call.tensor("self"), paddings, call.given["value"] or 0, call.shape)


def padded(call: Call, source: View, paddings: Sequence[tuple[int, int, int]], number: float, shape: Dims) -> View:
    """``source`` with (before, after, between elements) of ``number`` along each dimension."""
    if all(each == (0, 0, 0) for each in paddings):
        return source
    text = "x".join(f"{before}_{after}" + f"_{between}" * (between > 0) for before, after, between in paddings)
    start = call.build.number(number, call.dtype)
    return call.build.one("pad", (call.build.written(source), start.value), shape, call.dtype, padding=text)


def flip(call: Call) -> View:
    """Dimensions backwards."""
    source = call.build.written(call.tensor("self"))
    return call.build.one("reverse", (source,), call.shape, call.dtype, dimensions=call.dims("dims", len(call.shape)))


def broadcast_in_dim(call: Call) -> View:
    """PyTorch's primitive of this name."""
    source = call.tensor("a")
    shape = [1] * len(call.shape)
    for size, dim in zip(call.build.shape(source), call.given["broadcast_dimensions"], strict=True):
        shape[dim] = size
    return expand(call._replace(given={"self": call.build.reshape(source, tuple(shape))}))


def _bound(value: int | None, size: int, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int):
        raise NotTranslatedError
    return min(max(value + size if value < 0 else value, 0), size)

"""HLO operations in numpy, element by element where that is simplest: what the factor rules are judged by.

Written from "HLO semantics" alone; shares nothing with the rules.
"""

import itertools
import math

import numpy as np

from dse.graph.step import StepOperation

BINARY = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply, "subtract": np.subtract}
UNARY = {"negate": np.negative, "tanh": np.tanh, "copy": np.copy}
NEUTRAL = {"add": 0.0, "maximum": -math.inf, "minimum": math.inf, "multiply": 1.0}


def run(operation: StepOperation, operands, results):
    """The results of ``operation``; ``results``: their dimensions, which some operations cannot be run without."""
    opcode, given = operation.opcode, operation.attributes
    if opcode in BINARY:
        return [BINARY[opcode](*operands)]
    if opcode in UNARY:
        return [UNARY[opcode](*operands)]
    return globals()["_" + opcode.replace("-", "_")](given, operands, results)


def _select(_, operands, results):
    return [np.where(operands[0] > 0, operands[1], operands[2])]


def _clamp(_, operands, results):
    return [np.minimum(np.maximum(operands[1], operands[0]), operands[2])]


def _broadcast(given, operands, results):
    result = np.empty(results[0])
    for index in np.ndindex(*results[0]):
        sizes = operands[0].shape
        place = tuple(index[to] if sizes[dim] > 1 else 0 for dim, to in enumerate(given["dimensions"]))
        result[index] = operands[0][place]
    return [result]


def _transpose(given, operands, results):
    return [np.transpose(operands[0], given["dimensions"])]


def _reshape(given, operands, results):
    return [operands[0].reshape(results[0])]


def _concatenate(given, operands, results):
    return [np.concatenate(operands, given["dimensions"][0])]


def _reverse(given, operands, results):
    return [np.flip(operands[0], given["dimensions"])]


def _slice(given, operands, results):
    ranges = [tuple(map(int, part.split(":"))) for part in given["slice"].strip("{}[]").split("],[")]
    return [operands[0][tuple(slice(*each) for each in ranges)]]


def _pad(given, operands, results):
    low = [int(part.split("_")[0]) for part in given["padding"].split("x")]
    inner = [int([*part.split("_"), "0"][2]) for part in given["padding"].split("x")]
    result = np.full(results[0], float(operands[1]))
    for index in np.ndindex(*operands[0].shape):
        place = tuple(start + position * (1 + gap) for start, position, gap in zip(low, index, inner, strict=True))
        if all(0 <= at < size for at, size in zip(place, results[0], strict=True)):
            result[place] = operands[0][index]
    return [result]


def _starts(operands, source, sizes):
    return [int(np.clip(start, 0, whole - size)) for start, whole, size in zip(operands, source, sizes, strict=True)]


def _dynamic_slice(given, operands, results):
    starts = _starts(operands[1:], operands[0].shape, results[0])
    return [operands[0][tuple(slice(at, at + size) for at, size in zip(starts, results[0], strict=True))]]


def _dynamic_update_slice(given, operands, results):
    source, update, *starts = operands
    starts = _starts(starts, source.shape, update.shape)
    result = source.copy()
    result[tuple(slice(at, at + size) for at, size in zip(starts, update.shape, strict=True))] = update
    return [result]


def _dot(given, operands, results):
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left, right = ([None] * each.ndim for each in operands)
    pairs = [
        *zip(given.get("lhs_batch_dims", ()), given.get("rhs_batch_dims", ()), strict=True),
        *zip(given.get("lhs_contracting_dims", ()), given.get("rhs_contracting_dims", ()), strict=True),
    ]
    for dim, to in pairs:
        left[dim] = right[to] = next(letters)
    left = [letter or next(letters) for letter in left]
    free = [letter is None for letter in right]
    right = [letter or next(letters) for letter in right]
    batch = [left[dim] for dim in given.get("lhs_batch_dims", ())]
    inner = {left[dim] for dim in given.get("lhs_contracting_dims", ())}
    result = batch + [each for each in left if each not in batch and each not in inner]
    result += [each for each, is_free in zip(right, free, strict=True) if is_free]
    return [np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(result)}", *operands)]


def _window(given, rank):
    parts = dict(part.split("=") for part in str(given.get("window", "{}")).strip("{}").split())
    window = {key: list(map(int, parts.get(key, "x".join(["1"] * rank)).split("x"))) for key in
              ("size", "stride", "lhs_dilate", "rhs_dilate")}  # fmt: skip
    pads = parts.get("pad", "x".join(["0_0"] * rank)).split("x")
    low, high = zip(*(map(int, pad.split("_")) for pad in pads), strict=True)
    return window | {"low": low, "high": high}


def _assert_size(window, sizes, reduced):
    """As XLA asserts it: the window goes over all of its padded operand, and nothing else follows from the paddings."""
    for dim, (size, result) in enumerate(zip(sizes, reduced, strict=True)):
        whole = window["low"][dim] + (size - 1) * window["lhs_dilate"][dim] + 1 + window["high"][dim]
        reach = (window["size"][dim] - 1) * window["rhs_dilate"][dim] + 1
        assert (whole - reach) // window["stride"][dim] + 1 == result, (window, sizes, reduced)


def _convolution(given, operands, results):
    """Sum over the window and the input features of each group, output by output."""
    image, kernel = operands
    left, rest = given["dim_labels"].split("_")
    middle, out = rest.split("->")
    window = _window(given, len(left) - 2)
    groups, batch_groups = given.get("feature_group_count", (1,))[0], given.get("batch_group_count", (1,))[0]
    spatial = range(len(left) - 2)
    sizes = dict(zip(middle, kernel.shape, strict=True))
    images, shares = dict(zip(left, image.shape, strict=True)), sizes["o"] // max(groups, batch_groups)
    reduced = dict(zip(out, results[0], strict=True))
    _assert_size(window, *([each[str(dim)] for dim in spatial] for each in (images, reduced)))
    result = np.zeros(results[0])
    for index in np.ndindex(*results[0]):
        at = dict(zip(out, index, strict=True))
        group = at["f"] // shares
        batch = at["b"] + (group * results[0][out.index("b")] if batch_groups > 1 else 0)
        for feature in range(sizes["i"]):
            channel = feature + (group * sizes["i"] if groups > 1 else 0)
            for offset in np.ndindex(*(sizes[str(dim)] for dim in spatial)):
                place = [
                    at[str(dim)] * window["stride"][dim] + offset[dim] * window["rhs_dilate"][dim] - window["low"][dim]
                    for dim in spatial
                ]
                dilated = [divmod(each, window["lhs_dilate"][dim]) for dim, each in enumerate(place)]
                if any(rest or not 0 <= whole < images[str(dim)] for dim, (whole, rest) in enumerate(dilated)):
                    continue
                where = {"b": batch, "f": channel} | {str(dim): whole for dim, (whole, _) in enumerate(dilated)}
                weight = {"i": feature, "o": at["f"]} | {str(dim): offset[dim] for dim in spatial}
                pixel = image[tuple(where[label] for label in left)]
                result[index] += pixel * kernel[tuple(weight[label] for label in middle)]
    return [result]


def _reduce(given, operands, results):
    combine = BINARY[given["combiner"]].reduce
    return [BINARY[given["combiner"]](combine(operands[0], axis=tuple(given["dimensions"])), operands[1])]


def _reduce_window(given, operands, results):
    source, start = operands
    window = _window(given, source.ndim)
    _assert_size(window, source.shape, results[0])
    combine = BINARY[given["combiner"]]
    result = np.full(results[0], float(start))
    for index in np.ndindex(*results[0]):
        for place in _under(window, index, source.shape):
            result[index] = combine(result[index], source[place])
    return [result]


def _under(window, index, shape):
    """The places of an array that a window covers."""
    ranges = [
        [start + step * window["rhs_dilate"][dim] for step in range(window["size"][dim])]
        for dim, start in enumerate(at * window["stride"][d] - window["low"][d] for d, at in enumerate(index))
    ]
    for place in itertools.product(*ranges):
        if all(0 <= at < size for at, size in zip(place, shape, strict=True)):
            yield place


def _select_and_scatter(given, operands, results):
    """Selects the greatest element of each window and adds there."""
    source, updates, start = operands
    window = _window(given, source.ndim)
    result = np.full(source.shape, float(start))
    for index in np.ndindex(*updates.shape):
        best = max(_under(window, index, source.shape), key=lambda place: source[place])
        result[best] += updates[index]
    return [result]


def _sort(given, operands, results):
    order = np.argsort(operands[0], axis=given["dimensions"][0], kind="stable")
    return [np.take_along_axis(each, order, given["dimensions"][0]) for each in operands]


def _topk(given, operands, results):
    order = np.argsort(-operands[0], axis=-1, kind="stable")[..., : results[0][-1]]
    return [np.take_along_axis(operands[0], order, -1), order]


def _cholesky(given, operands, results):
    return [np.linalg.cholesky(operands[0])]


def _gather(given, operands, results):
    table, indices = operands
    vector = given["index_vector_dim"][0]
    offsets = given["offset_dims"]
    sizes = [min(pair) for pair in zip(given["slice_sizes"], table.shape, strict=True)]  # of a part of the table
    batching, of_indices = given.get("operand_batching_dims", ()), given.get("start_indices_batching_dims", ())
    dropped = {*given.get("collapsed_slice_dims", ()), *batching}
    inside = [dim for dim in range(table.ndim) if dim not in dropped]
    outside = [dim for dim in range(len(results[0])) if dim not in offsets]
    result = np.empty(results[0])
    for index in np.ndindex(*results[0]):
        positions = [index[dim] for dim in outside]
        place = [0] * table.ndim
        for entry, dim in enumerate(given["start_index_map"]):
            at = list(positions)
            if vector < indices.ndim:
                at.insert(vector, entry)
            place[dim] = int(np.clip(indices[tuple(at)], 0, table.shape[dim] - sizes[dim]))
        for dim, of in zip(batching, of_indices, strict=True):
            place[dim] = positions[of - (of > vector)]
        for dim, to in zip(inside, offsets, strict=True):
            place[dim] += index[to]
        result[index] = table[tuple(place)]
    return [result]


def _scatter(given, operands, results):
    table, indices, updates = operands
    vector = given["index_vector_dim"][0]
    window, inserted = given["update_window_dims"], given.get("inserted_window_dims", ())
    batching, of_indices = given.get("input_batching_dims", ()), given.get("scatter_indices_batching_dims", ())
    written = [dim for dim in range(table.ndim) if dim not in inserted and dim not in batching]
    outside = [dim for dim in range(updates.ndim) if dim not in window]
    result = table.copy()
    for index in np.ndindex(*updates.shape):
        positions = [index[dim] for dim in outside]
        place = [0] * table.ndim
        for entry, dim in enumerate(given["scatter_dims_to_operand_dims"]):
            at = list(positions)
            if vector < indices.ndim:
                at.insert(vector, entry)
            place[dim] = int(indices[tuple(at)])
        for dim, of in zip(batching, of_indices, strict=True):
            place[dim] = positions[of - (of > vector)]
        for dim, to in zip(written, window, strict=True):
            place[dim] += index[to]
        if all(0 <= at < size for at, size in zip(place, table.shape, strict=True)):
            result[tuple(place)] = BINARY[given["combiner"]](result[tuple(place)], updates[index])
    return [result]

"""Attributes of StableHLO operations, written as HLO text writes them."""

import re
from collections.abc import Iterator, Mapping, Sequence

from dse.importer.hlo.attributes import listed, padding_text, quoted, ranges_text, window_text
from dse.importer.hlo.mlir import symbol_in


def attributes_of(kind: str, text: str, operands: Sequence[tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    """Attributes of an operation by HLO's names: ``kind`` without its dialect, ``text`` of its attributes, and the
    dimensions of each operand.
    """
    ranks = list(map(len, operands))
    for keys, name in _LISTS.get(kind, ()):
        if (numbers := integers(text, *keys)) is not None:
            yield name, listed(numbers)
    match kind:
        case "dot_general" | "dot":
            yield from _dot(kind, text, ranks)
            yield from _precision(text)
        case "convolution":
            yield from _convolution(text, operands)
            yield from _precision(text)
        case "sort":
            yield "dimensions", listed([(*(integers(text, "dimension") or ()), -1)[0] % max(1, *ranks)])
        case "gather" | "scatter" if integers(text, "index_vector_dim") is None:
            yield "index_vector_dim", "0"
        case "slice":
            yield "slice", ranges_text(_ranges(text))
        case "pad":
            yield "padding", padding_text(triples(text, PADDING))
        case "reduce_window" | "select_and_scatter":
            yield "window", _window(text, ranks[0] if ranks else 0)
        case "compare":
            if direction := re.search(r"\b(EQ|NE|LT|LE|GT|GE)\b", text):
                yield "direction", direction.group(1)
        case "custom_call":
            if "has_side_effect = true" in text:
                yield "has_side_effect", "true"
            yield "custom_call_target", quoted(symbol_in(text))


_NUMBERS = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
            "start_indices_batching_dims", "index_vector_dim", "slice_sizes", "update_window_dims",
            "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
            "scatter_indices_batching_dims")  # fmt: skip

_LISTS: Mapping[str, Sequence[tuple[tuple[str, ...], str]]] = {
    "broadcast_in_dim": ((("dims", "broadcast_dimensions"), "dimensions"),),
    "transpose": ((("dims", "permutation"), "dimensions"),),
    "reverse": ((("dims", "dimensions"), "dimensions"),),
    "reduce": ((("dimensions",), "dimensions"),),
    "concatenate": ((("dim", "dimension"), "dimensions"),),
    "iota": ((("dim", "iota_dimension"), "iota_dimension"),),
    "fft": ((("length", "fft_length"), "fft_length"),),
    "get_tuple_element": ((("index",), "index"),),
    "dynamic_slice": ((("sizes", "slice_sizes"), "dynamic_slice_sizes"),),
    "gather": tuple(((name,), name) for name in _NUMBERS),
    "scatter": tuple(((name,), name) for name in _NUMBERS),
}
"""Of each operation the lists of numbers by their words, in pretty and generic form, and HLO's word for them."""

PADDING = (("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding"))
_SLICE = (("start_indices",), ("limit_indices",), ("strides",))
NUMBER = r"-?\d{1,18}"
_INTEGERS = r"(?:array<i64(?::([^>]*))?>|\[([^\[\]]*)\]|dense<([^>]*)>|(-?\d+))"
_LABELS = re.compile(r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]")
_PAIR = r" = \[([^\]]*)\] x \[([^\]]*)\]"


def integers(text: str, *keys: str) -> tuple[int, ...] | None:
    """The numbers under one of ``keys``; None if none of them is there."""
    for key in keys:
        if match := re.search(rf"(?<!\w){key} = {_INTEGERS}", text):
            listed = next((part for part in match.groups() if part is not None), "")
            return tuple(map(int, re.findall(NUMBER, listed)))
    return None


def triples(text: str, keys: Sequence[tuple[str, ...]]) -> list[tuple[int, int, int]]:
    """The numbers at three keys, each of which may have several names, side by side."""
    first, second, third = (integers(text, *each) or () for each in keys)
    return list(zip(first, second, third, strict=False))


def _ranges(text: str) -> list[tuple[int, int, int]]:
    """(start, limit, stride) of each dimension: ``[0:8, 0:4:2]``, or three lists."""
    if "limit_indices" in text:
        return triples(text, _SLICE)
    ranges = re.findall(rf"({NUMBER}):({NUMBER})(?::({NUMBER}))?", text)
    return [(int(start), int(limit), int(stride or 1)) for start, limit, stride in ranges]


def _dot(kind: str, text: str, ranks: Sequence[int]) -> Iterator[tuple[str, str]]:
    if kind == "dot":
        yield from (("lhs_contracting_dims", listed([max(0, (*ranks, 1)[0] - 1)])), ("rhs_contracting_dims", "{0}"))
        return
    for word, generic, name in (("batching_dims", "batching_dimensions", "batch_dims"), _CONTRACTING):
        pair = re.search(word + _PAIR, text)
        for place, side in enumerate(("lhs", "rhs")):
            numbers = re.findall(NUMBER, pair.group(place + 1)) if pair else integers(text, f"{side}_{generic}")
            yield f"{side}_{name}", listed([int(number) for number in numbers or ()])


_CONTRACTING = ("contracting_dims", "contracting_dimensions", "contracting_dims")


def _precision(text: str) -> Iterator[tuple[str, str]]:
    """How products of float32 are computed, where it is not XLA's default."""
    if match := re.search(r"\bprecision(?:_config)? = \[([^\]]*)\]", text):
        stated = [word.lower() for word in re.findall(r"\b(DEFAULT|HIGHEST|HIGH)\b", match.group(1))]
        if {*stated} & {"high", "highest"}:
            yield "operand_precision", f"{{{','.join(stated)}}}"
    if match := re.search(r"algorithm = [^<]*<([^>]*)>", text):
        parts = dict(re.findall(r"(\w+) = (\w+)", match.group(1)))
        passes = parts.get("num_primitive_operations", "1")
        types = (parts.get(f"{key}_type", "") for key in ("lhs_precision", "rhs_precision", "accumulation"))
        yield "algorithm", f"dot_{'_'.join(types)}{f'_x{passes}' if passes != '1' else ''}"


def _convolution(text: str, operands: Sequence[tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    if labels := _LABELS.search(text):
        image, kernel, result = (re.sub(r"[^\w?]", "", part) for part in labels.groups())
        yield "dim_labels", f"{image}_{kernel}->{result}"
        dims = dict(zip(kernel, operands[1], strict=False)) if len(operands) > 1 else {}
        if sizes := [size for label, size in sorted(dims.items()) if label.isdecimal()]:
            yield "window", _moved(text, sizes)
    for key in ("feature_group_count", "batch_group_count"):
        if (count := integers(text, key)) and count[0] != 1:
            yield key, str(count[0])


def _moved(text: str, sizes: Sequence[int]) -> str:
    """The window of a convolution, by its words in pretty and generic form; its sizes are those of the kernel."""
    pads = re.search(r"\bpad = \[(.*?\])?\]", text)
    numbers = tuple(map(int, re.findall(NUMBER, pads.group()))) if pads else integers(text, "padding") or (0,)
    return _window_of(
        list(sizes),
        numbers,
        {
            "stride": integers(text, "stride", "window_strides"),
            "lhs_dilate": integers(text, "lhs_dilate", "lhs_dilation"),
            "rhs_dilate": integers(text, "rhs_dilate", "rhs_dilation"),
        },
    )


def _window(text: str, rank: int) -> str:
    return _window_of(
        _spread(integers(text, "window_dimensions") or (1,), rank),
        integers(text, "padding") or (0,),
        {
            "stride": integers(text, "window_strides"),
            "lhs_dilate": integers(text, "base_dilations"),
            "rhs_dilate": integers(text, "window_dilations"),
        },
    )


def _window_of(sizes: Sequence[int], paddings: tuple[int, ...], others: Mapping[str, tuple[int, ...] | None]) -> str:
    """A window as HLO text has it: low and high paddings alternate, what is not stated is 1 everywhere."""
    rank = len(sizes)
    pads = _spread(paddings, 2 * rank)
    return window_text(
        {
            "size": list(map(str, sizes)),
            "pad": [f"{low}_{high}" for low, high in zip(pads[::2], pads[1::2], strict=False)],
            **{key: [str(number) for number in _spread(part or (1,), rank)] for key, part in others.items()},
        }
    )


def _spread(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """One number stands for all."""
    return numbers * count if len(numbers) == 1 else numbers

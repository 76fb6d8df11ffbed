"""HLO as JSON: the JSON form that protobuf gives ``xla.HloModuleProto``, alone or in ``xla.HloProto``.

The messages are those of XLA (``xla/service/hlo.proto``, ``xla/xla_data.proto``); only fields that say how arrays hang
together are read, all others may be there. As protobuf's rules for JSON have it, names may be in camel case or as in
the schema, integers of 64 bits may be text, enumerations names or numbers, and what is 0 or empty may be left out.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dse.importer.hlo.attributes import listed, metadata_text, padding_text, quoted, ranges_text, window_text
from dse.importer.hlo.json_messages import (
    ComputationMessage,
    ConvolutionNumbersMessage,
    InstructionMessage,
    ModuleMessage,
    ShapeMessage,
    ShardingMessage,
    WindowDimensionMessage,
)
from dse.importer.hlo.module import (
    SHAPE_RULE,
    ArrayShape,
    Computation,
    HloModule,
    Instruction,
    Shape,
    is_storable,
    notes_of_bounds,
    require_parameters,
)
from dse.importer.hlo.tiles import require_iota, require_listed
from hardware.inputs import InputError, fail, validate

KEYS = ("hlo", "hloModule", "hlo_module", "computations")
"""One of these keys tells such a document from others."""

_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2",
    20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2",
    28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu",
}  # fmt: skip
"""Numbers of ``xla.PrimitiveType``."""

_NAMES = {"opaque_type": "opaque"}
"""Names of ``xla.PrimitiveType`` that text writes in another way."""


def module_from_document(document: Any, file: str | Path) -> HloModule:
    """The module that a JSON document describes; ``file`` is what errors call it.

    Raises:
        InputError: a document of another form, or a value that breaks a rule, with its key.
    """
    within = ""
    for key in ("hlo", "hloModule", "hlo_module"):
        if isinstance(document, dict) and key in document:
            document, within = document[key], f"{within}{key}."
    if not isinstance(document, dict) or "computations" not in document:
        rule = "must be HLO as JSON: an xla.HloModuleProto with computations, by itself or as hloModule"
        raise fail(file, within.rstrip("."), document if within else "", rule)
    try:
        module = validate(ModuleMessage, document, file)
    except InputError as error:
        raise InputError(replace(fault, key=f"{within}{fault.key}") for fault in error.faults) from error
    return _Reader(module, str(file), within).module()


class _Reader:
    """One pass over the computations; names take the place of ids."""

    def __init__(self, module: ModuleMessage, file: str, within: str) -> None:
        self._module = module
        self._file = file
        self._within = within
        self._called: dict[int, str] = {}
        self._bounded: list[str] = []

    def module(self) -> HloModule:
        """The whole module."""
        computations: dict[str, Computation] = {}
        for number, each in enumerate(self._module.computations):
            place = f"{self._within}computations.{number}"
            if each.id in self._called or each.name in computations:
                raise fail(self._file, place, each.name, "a computation with this name or id already exists")
            computations[each.name] = self._computation(each, place)
            self._called[each.id] = each.name
        return HloModule(self._module.name, computations, self._entry(computations), notes_of_bounds(self._bounded))

    def _require_tiles(self, sharding: ShardingMessage, key: str) -> None:
        for each in (sharding, *sharding.tuple_shardings):
            tiles, reshaped = each.tile_assignment_dimensions, each.iota_reshape_dims
            if tiles and reshaped:
                require_iota(tiles, reshaped, each.iota_transpose_perm or None, self._file, f"{key}.sharding")
            elif tiles:
                require_listed(tiles, each.tile_assignment_devices, self._file, f"{key}.sharding")

    def _entry(self, computations: Mapping[str, Computation]) -> str:
        """The computation of that name, or where no name is stated of that id."""
        name, number = self._module.entry_computation_name, self._module.entry_computation_id
        entry = name or self._called.get(number, "")
        if entry not in computations:
            key = "entryComputationName" if name else "entryComputationId"
            raise fail(self._file, f"{self._within}{key}", name or number, "must be one of the computations")
        return entry

    def _computation(self, computation: ComputationMessage, place: str) -> Computation:
        instructions: dict[str, Instruction] = {}
        names: dict[int, str] = {}
        for number, each in enumerate(computation.instructions):
            key = f"{place}.instructions.{number}"
            if each.name in instructions or each.id in names:
                raise fail(self._file, key, each.name, "an instruction with this name or id already exists")
            self._require_tiles(each.sharding, key)
            instructions[each.name] = self._instruction(each, names, key)
            names[each.id] = each.name
        root = names.get(computation.root_id)
        if root is None:
            raise fail(self._file, f"{place}.rootId", computation.root_id, "must be one of its instructions")
        made = Computation(computation.name, instructions, root)
        require_parameters(made, self._file, place)
        return made

    def _instruction(self, each: InstructionMessage, names: Mapping[int, str], key: str) -> Instruction:
        for operand in each.operand_ids:
            if operand not in names:
                rule = "an operand must be an earlier instruction of the same computation"
                raise fail(self._file, f"{key}.operandIds", operand, rule)
        for called in each.called_computation_ids:
            if called not in self._called:
                rule = "must be an earlier computation"
                raise fail(self._file, f"{key}.calledComputationIds", called, rule)
        return Instruction(
            each.name,
            each.opcode,
            self._shape(each.shape, f"{key}.shape"),
            tuple(names[operand] for operand in each.operand_ids),
            _literal(each),
            _text_of(each, [self._called[called] for called in each.called_computation_ids]),
            key,
        )

    def _shape(self, shape: ShapeMessage, key: str) -> Shape:
        kind = shape.element_type
        dtype = _TYPES.get(kind, str(kind)) if isinstance(kind, int) else _NAMES.get(kind.lower(), kind.lower())
        if dtype == "tuple":
            parts = enumerate(shape.tuple_shapes)
            return tuple(self._shape(part, f"{key}.tupleShapes.{number}") for number, part in parts)
        array = ArrayShape(dtype, shape.dimensions)
        if not is_storable(array):
            raise fail(self._file, key, f"{dtype}{list(shape.dimensions)}", SHAPE_RULE)
        if any(shape.is_dynamic_dimension):
            self._bounded.append(key)
        return array


def _literal(each: InstructionMessage) -> str:
    """A parameter's number; a whole number that is a constant, as numbers of passes are."""
    if each.opcode == "parameter":
        return str(each.parameter_number)
    whole = (*each.literal.s32s, *each.literal.s64s, *each.literal.u32s, *each.literal.u64s)
    return str(whole[0]) if each.opcode == "constant" and len(whole) == 1 else ""


def _text_of(each: InstructionMessage, called: Sequence[str]) -> str:
    """The attributes as HLO text has them."""
    return "".join(f", {name}={value}" for name, value in _attributes(each, called))


def _attributes(each: InstructionMessage, called: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from _called_computations(each, called)
    if each.opcode == "get-tuple-element":
        yield "index", str(each.tuple_index)
    if each.dimensions:
        yield "iota_dimension" if each.opcode == "iota" else "dimensions", listed(each.dimensions)
    if each.dynamic_slice_sizes:
        yield "dynamic_slice_sizes", listed(each.dynamic_slice_sizes)
    if each.fft_length:
        yield "fft_length", listed(each.fft_length)
    if each.comparison_direction:
        yield "direction", each.comparison_direction
    if each.custom_call_target:
        yield "custom_call_target", quoted(each.custom_call_target)
    if each.slice_dimensions:
        yield "slice", ranges_text([(part.start, part.limit, part.stride) for part in each.slice_dimensions])
    if each.padding_config is not None:
        dims = each.padding_config.dimensions
        yield "padding", padding_text([(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in dims])
    if each.window is not None and each.window.dimensions:
        yield "window", _window(each.window.dimensions)
    if each.convolution_dimension_numbers is not None and each.opcode == "convolution":
        yield "dim_labels", _labels(each.convolution_dimension_numbers)
        yield from ((key, str(count)) for key, count in _groups(each) if count > 1)
    yield from _numbers(each)
    if each.backend_config:
        yield "backend_config", _decoded(each.backend_config)
    if each.metadata.op_name:
        yield "metadata", metadata_text(each.metadata.op_name)


def _called_computations(each: InstructionMessage, called: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each opcode has its own words for what it calls."""
    match each.opcode, list(called):
        case "while", [body, condition]:
            yield from (("condition", condition), ("body", body))
        case "select-and-scatter", [select, scatter]:
            yield from (("select", select), ("scatter", scatter))
        case "conditional", _:
            yield "branch_computations", f"{{{', '.join(called)}}}"
        case (("fusion" | "async-start"), [callee]):
            yield "calls", callee
        case _, [callee]:
            yield "to_apply", callee


def _numbers(each: InstructionMessage) -> Iterator[tuple[str, str]]:
    """Dimension numbers of products and lookups."""
    if (dot := each.dot_dimension_numbers) is not None:
        yield "lhs_batch_dims", listed(dot.lhs_batch_dimensions)
        yield "lhs_contracting_dims", listed(dot.lhs_contracting_dimensions)
        yield "rhs_batch_dims", listed(dot.rhs_batch_dimensions)
        yield "rhs_contracting_dims", listed(dot.rhs_contracting_dimensions)
    stated = [_PRECISIONS.get(str(word), str(word).lower()) for word in each.precision_config.operand_precision]
    if {*stated} & {"high", "highest"}:
        yield "operand_precision", f"{{{','.join(stated)}}}"
    algorithm = str(each.precision_config.algorithm).lower()
    if algorithm.startswith("alg_dot_"):
        yield "algorithm", algorithm.removeprefix("alg_")
    for numbers in (each.gather_dimension_numbers, each.scatter_dimension_numbers):
        for name, value in () if numbers is None else numbers:
            yield name, listed(value) if isinstance(value, tuple) else str(value)
    if each.gather_slice_sizes:
        yield "slice_sizes", listed(each.gather_slice_sizes)


_PRECISIONS = {"0": "default", "1": "high", "2": "highest"}
"""``PrecisionConfig.Precision`` where it is written as a number."""


def _groups(each: InstructionMessage) -> Iterator[tuple[str, int]]:
    yield "feature_group_count", each.feature_group_count
    yield "batch_group_count", each.batch_group_count


def _window(dims: Sequence[WindowDimensionMessage]) -> str:
    return window_text(
        {
            "size": [str(each.size) for each in dims],
            "stride": [str(each.stride) for each in dims],
            "pad": [f"{each.padding_low}_{each.padding_high}" for each in dims],
            "lhs_dilate": [str(each.base_dilation) for each in dims],
            "rhs_dilate": [str(each.window_dilation) for each in dims],
            "rhs_reversal": [str(int(each.window_reversal)) for each in dims],
        }
    )


def _labels(numbers: ConvolutionNumbersMessage) -> str:
    """``b01f_01io->b01f``."""
    sides = (
        ("b", "f", numbers.input_batch_dimension, numbers.input_feature_dimension, numbers.input_spatial_dimensions),
        ("i", "o", numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension,
         numbers.kernel_spatial_dimensions),
        ("b", "f", numbers.output_batch_dimension, numbers.output_feature_dimension, numbers.output_spatial_dimensions),
    )  # fmt: skip
    texts = []
    for first, second, first_dim, second_dim, spatial in sides:
        label = {first_dim: first, second_dim: second, **{dim: str(number) for number, dim in enumerate(spatial)}}
        texts.append("".join(label[dim] for dim in sorted(label)))
    return f"{texts[0]}_{texts[1]}->{texts[2]}"


def _decoded(text: str) -> str:
    """Bytes, which are in base 64, as text; nothing if they are not."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""

"""XLA's own HloModuleProto as JSON, by protobuf: the part of its schema that says how arrays hang together.

Fields, numbers and types are those of ``xla/service/hlo.proto`` and ``xla/xla_data.proto``; fields that are left out
here are skipped by protobuf as unknown.
"""

import json

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

TYPES = {
    "PRED": 1, "S8": 2, "S16": 3, "S32": 4, "S64": 5, "U8": 6, "U16": 7, "U32": 8, "U64": 9, "F16": 10, "F32": 11,
    "F64": 12, "TUPLE": 13, "OPAQUE_TYPE": 14, "C64": 15, "BF16": 16, "TOKEN": 17, "C128": 18,
}  # fmt: skip

SCHEMA = """
ShapeProto: element_type=2:enum dimensions=3:int64* tuple_shapes=4:ShapeProto*
OpMetadata: op_name=2:string
LiteralProto: s32s=4:int32* s64s=5:int64* u32s=6:uint32* u64s=7:uint64*
WindowDimension: size=1:int64 stride=2:int64 padding_low=3:int64 padding_high=4:int64 window_dilation=5:int64 base_dilation=6:int64 window_reversal=7:bool
Window: dimensions=1:WindowDimension*
ConvolutionDimensionNumbers: input_batch_dimension=7:int64 input_feature_dimension=8:int64 input_spatial_dimensions=11:int64* kernel_input_feature_dimension=3:int64 kernel_output_feature_dimension=4:int64 kernel_spatial_dimensions=6:int64* output_batch_dimension=9:int64 output_feature_dimension=10:int64 output_spatial_dimensions=12:int64*
SliceDimensions: start=1:int64 limit=2:int64 stride=3:int64
PaddingConfigDimension: edge_padding_low=1:int64 edge_padding_high=2:int64 interior_padding=3:int64
PaddingConfig: dimensions=1:PaddingConfigDimension*
DotDimensionNumbers: lhs_contracting_dimensions=1:int64* rhs_contracting_dimensions=2:int64* lhs_batch_dimensions=3:int64* rhs_batch_dimensions=4:int64*
GatherDimensionNumbers: offset_dims=1:int64* collapsed_slice_dims=2:int64* start_index_map=3:int64* index_vector_dim=4:int64 operand_batching_dims=5:int64* start_indices_batching_dims=6:int64*
ScatterDimensionNumbers: update_window_dims=1:int64* inserted_window_dims=2:int64* scatter_dims_to_operand_dims=3:int64* index_vector_dim=4:int64 input_batching_dims=5:int64* scatter_indices_batching_dims=6:int64*
HloInstructionProto: name=1:string opcode=2:string shape=3:ShapeProto metadata=7:OpMetadata literal=8:LiteralProto parameter_number=9:int64 fusion_kind=11:string tuple_index=13:int64 dimensions=14:int64* window=15:Window convolution_dimension_numbers=16:ConvolutionDimensionNumbers slice_dimensions=17:SliceDimensions* dynamic_slice_sizes=20:int64* padding_config=21:PaddingConfig channel_id=26:int64 custom_call_target=28:string dot_dimension_numbers=30:DotDimensionNumbers fft_length=32:int64* gather_dimension_numbers=33:GatherDimensionNumbers gather_slice_sizes=34:int64* id=35:int64 operand_ids=36:int64* called_computation_ids=38:int64* backend_config=43:bytes scatter_dimension_numbers=48:ScatterDimensionNumbers feature_group_count=50:int64 batch_group_count=58:int64 comparison_direction=63:string
HloComputationProto: name=1:string instructions=2:HloInstructionProto* id=5:int64 root_id=6:int64
HloModuleProto: name=1:string entry_computation_name=2:string computations=3:HloComputationProto* entry_computation_id=6:int64
"""  # noqa: E501 (one line a message)


def _message_class():
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="hlo_of_the_tests.proto", package="xla", syntax="proto3")
    enum = file.enum_type.add(name="PrimitiveType")
    enum.value.add(name="PRIMITIVE_TYPE_INVALID", number=0)
    for name, number in TYPES.items():
        enum.value.add(name=name, number=number)
    for line in SCHEMA.strip().splitlines():
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        for text in fields.split():
            field, _, rest = text.partition("=")
            number, _, kind = rest.partition(":")
            repeated, kind = kind.endswith("*"), kind.rstrip("*")
            added = message.field.add(name=field, number=int(number))
            added.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind == "enum":
                added.type, added.type_name = kinds.TYPE_ENUM, ".xla.PrimitiveType"
            elif kind[0].isupper():
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".xla.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("xla.HloModuleProto"))


def proto_as_json(serialised, *, schema_names=False):
    """The JSON text of a serialised HloModuleProto."""
    message = _message_class().FromString(serialised)
    document = json_format.MessageToDict(message, preserving_proto_field_name=schema_names)
    return json.dumps(document, separators=(",", ":"))

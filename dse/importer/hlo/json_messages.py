"""The messages of ``xla/service/hlo.proto`` and ``xla/xla_data.proto`` that :mod:`dse.importer.hlo.json_form` reads."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Message(BaseModel):
    """A message; fields that are not listed may be there."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True)


def _primitive(value: Any) -> Any:
    """``value``, where it is of one of two types: pydantic would name a fault of each."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    raise ValueError("must be the name or the number of an xla.PrimitiveType")


class ShapeMessage(Message):
    """``ShapeProto``."""

    element_type: Annotated[str | int, BeforeValidator(_primitive)] = 0
    dimensions: tuple[int, ...] = ()
    tuple_shapes: tuple["ShapeMessage", ...] = ()
    is_dynamic_dimension: tuple[bool, ...] = ()


class MetadataMessage(Message):
    """``OpMetadata``."""

    op_name: str = ""


class LiteralMessage(Message):
    """``LiteralProto``."""

    s32s: tuple[int, ...] = ()
    s64s: tuple[int, ...] = ()
    u32s: tuple[int, ...] = ()
    u64s: tuple[int, ...] = ()


class WindowDimensionMessage(Message):
    """``WindowDimension``."""

    size: int = 0
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    window_reversal: bool = False


class WindowMessage(Message):
    """``Window``."""

    dimensions: tuple[WindowDimensionMessage, ...] = ()


class ConvolutionNumbersMessage(Message):
    """``ConvolutionDimensionNumbers``."""

    input_batch_dimension: int = 0
    input_feature_dimension: int = 0
    input_spatial_dimensions: tuple[int, ...] = ()
    kernel_input_feature_dimension: int = 0
    kernel_output_feature_dimension: int = 0
    kernel_spatial_dimensions: tuple[int, ...] = ()
    output_batch_dimension: int = 0
    output_feature_dimension: int = 0
    output_spatial_dimensions: tuple[int, ...] = ()


class SliceMessage(Message):
    """``HloInstructionProto.SliceDimensions``."""

    start: int = 0
    limit: int = 0
    stride: int = 1


class PaddingDimensionMessage(Message):
    """``PaddingConfigDimension``."""

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0


class PaddingMessage(Message):
    """``PaddingConfig``."""

    dimensions: tuple[PaddingDimensionMessage, ...] = ()


class DotNumbersMessage(Message):
    """``DotDimensionNumbers``."""

    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_batch_dimensions: tuple[int, ...] = ()
    rhs_batch_dimensions: tuple[int, ...] = ()


class PrecisionConfigMessage(Message):
    """``PrecisionConfig``."""

    operand_precision: tuple[str | int, ...] = ()
    algorithm: str | int = ""


class ShardingMessage(Message):
    """``OpSharding``."""

    tile_assignment_dimensions: tuple[int, ...] = ()
    tile_assignment_devices: tuple[int, ...] = ()
    iota_reshape_dims: tuple[int, ...] = ()
    iota_transpose_perm: tuple[int, ...] = ()
    tuple_shardings: tuple["ShardingMessage", ...] = ()


class GatherNumbersMessage(Message):
    """``GatherDimensionNumbers``."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


class ScatterNumbersMessage(Message):
    """``ScatterDimensionNumbers``."""

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


class InstructionMessage(Message):
    """``HloInstructionProto``."""

    name: str = Field(min_length=1)
    opcode: str = Field(min_length=1)
    shape: ShapeMessage
    metadata: MetadataMessage = MetadataMessage()
    literal: LiteralMessage = LiteralMessage()
    parameter_number: int = 0
    tuple_index: int = 0
    dimensions: tuple[int, ...] = ()
    window: WindowMessage | None = None
    convolution_dimension_numbers: ConvolutionNumbersMessage | None = None
    feature_group_count: int = 1
    batch_group_count: int = 1
    slice_dimensions: tuple[SliceMessage, ...] = ()
    dynamic_slice_sizes: tuple[int, ...] = ()
    padding_config: PaddingMessage | None = None
    custom_call_target: str = ""
    dot_dimension_numbers: DotNumbersMessage | None = None
    precision_config: PrecisionConfigMessage = PrecisionConfigMessage()
    fft_length: tuple[int, ...] = ()
    comparison_direction: str = ""
    gather_dimension_numbers: GatherNumbersMessage | None = None
    gather_slice_sizes: tuple[int, ...] = ()
    scatter_dimension_numbers: ScatterNumbersMessage | None = None
    id: int = 0
    operand_ids: tuple[int, ...] = ()
    called_computation_ids: tuple[int, ...] = ()
    backend_config: str = ""
    sharding: ShardingMessage = ShardingMessage()


class ComputationMessage(Message):
    """``HloComputationProto``."""

    name: str = Field(min_length=1)
    instructions: tuple[InstructionMessage, ...] = Field(min_length=1)
    id: int = 0
    root_id: int = 0


class ModuleMessage(Message):
    """``HloModuleProto``."""

    name: str = "module"
    computations: tuple[ComputationMessage, ...] = Field(min_length=1)
    entry_computation_name: str = ""
    entry_computation_id: int = 0

"""The options of ``dse parallel``."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dse.parallel.pipeline.problem import StateName
from dse.parallel.problem import Objective
from dse.run.options import Option, Options, option_fields
from hardware.inputs import fail
from hardware.units import bytes_from_gib

Strategy = Literal["sharding", "pipeline", "hybrid", "all"]
Float32Products = Literal["stated", "default", "high", "highest"]
Method = Literal["auto", "exact", "linkage", "dqn", "inference"]

_SHARDING, _PIPELINE = ("strategy", "sharding"), ("strategy", "pipeline")
_STAGES = (*_PIPELINE, "hybrid", "all")
_CUT = (*_PIPELINE, "all")

MICROBATCHES = 16
"""Unless ``--microbatches`` is given."""

MAX_MICROBATCHES = 8_192
"""Times of a microbatch are counted so often, in integers of 64 bits."""

MAX_MEMORY_GB = 2**30
"""Sums of bytes stay below the largest integer of 64 bits."""


@dataclass(frozen=True)
class ParallelOptions(Options):
    """The options of ``dse parallel``."""

    COMMAND: ClassVar[str] = "parallel"

    step: Annotated[Any, Option("A training step.", metavar="STEP", positional=True, is_source=True)]
    strategy: Annotated[
        Strategy,
        Option(
            "sharding: split tensors over a mesh; pipeline: cut the forward pass into stages; hybrid: stages with "
            "split tensors; all: the one of these with the shortest training step."
        ),
    ] = "sharding"
    mesh: Annotated[
        str,
        Option(
            "Number of devices, or named axes from the outermost inwards (data=4,model=8); for a pipeline, a number.",
            metavar="MESH",
        ),
    ] = "8"
    stages: Annotated[
        int | None,
        Option(
            "Pipeline stages; a hybrid plan may have fewer (default: one per server, at least 2, or the number in a "
            "profile with cuts).",
            min=1,
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = None
    microbatches: Annotated[
        int | None,
        Option(
            "Microbatches per batch in a pipeline (default: 16; a hybrid plan with one stage may also have 1).",
            min=1,
            max=MAX_MICROBATCHES,
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = None
    device_cuts: Annotated[
        Literal["auto", "free", "near", "equal"],
        Option(
            "Devices per stage. free: any number of neighbouring devices; near: each cut at most 3 devices from where "
            "equal stages have it, as in the paper; equal: the same number in each stage; auto: the first of these "
            "with at most 50,000 ways to cut, or with --method inference the one that its policy was trained with.",
            belongs_to=_CUT,
            group="Pipelines and hybrid plans",
        ),
    ] = "auto"
    state: Annotated[
        StateName,
        Option(
            "What a device stores for trained tensors: weights; also gradients; also optimizer state.",
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = "optimizer"
    recompute: Annotated[
        bool,
        Option(
            "Store only each stage's input and recompute the other activations.",
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = False
    objective: Annotated[
        Objective,
        Option(
            "cost: seconds per step; count: split dimensions of trained tensors, the paper's reward.",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = "cost"
    method: Annotated[
        Method,
        Option(
            "exact: proven optimum with resharding; linkage: optimum without resharding, as in the paper; dqn: deep "
            "Q-learning on the step, as in the paper; inference: for pipelines, the best of a pretrained policy's "
            "plans, random ones and equal stages, improved by local search; auto: linkage for --objective count, "
            "otherwise exact."
        ),
    ] = "auto"
    checkpoint: Annotated[
        str | None,
        Option(
            "Policy for method inference, from `dse pretrain pipeline` (default: the one in the package).",
            metavar="DIR",
            belongs_to=("method", "inference"),
            group="Search",
        ),
    ] = None
    decide: Annotated[
        Literal["variables", "inputs"],
        Option(
            "What method dqn splits: dimensions of trained tensors (operator plans) or of inputs (data plans).",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = "variables"
    accelerator: Annotated[str, Option("Chip or system of the devices.", metavar="CHIP")] = "a100-sxm"
    f32_products: Annotated[
        Float32Products,
        Option(
            "Precision of float32 products. default: TF32 on A100 and H100, one bfloat16 pass on TPUs; high: TF32, or "
            "three passes; highest: float32, or six passes; stated: as the step states, otherwise the framework's "
            "default (XLA: default; PyTorch: highest for matrix products, default for convolutions).",
            group="Input and cost model",
        ),
    ] = "stated"
    network: Annotated[str | None, Option("Network between devices (default: the accelerator's).", metavar="SPEC")] = (
        None
    )
    memory_gb: Annotated[
        float | None,
        Option(
            "Memory limit per device in GB, for the step's arguments or, in a pipeline, for everything that a stage "
            "stores (default: the accelerator's).",
            min=0.0,
        ),
    ] = None
    activations: Annotated[
        bool,
        Option(
            "Count every intermediate tensor until its last use towards the memory limit (method exact).",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = False
    overlap: Annotated[
        bool,
        Option(
            "Overlap communication with compute where possible: delay gradient reduction, prefetch weights.",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = False
    pin: Annotated[
        tuple[str, ...],
        Option(
            "Required layout of an argument: an axis or - for each dimension.",
            metavar="NAME=AXIS,-",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = ()
    variables: Annotated[
        str | None,
        Option(
            "Trained arguments, one name per line (default: recognised by their use in the step).",
            metavar="FILE",
            group="Input and cost model",
        ),
    ] = None
    why: Annotated[
        str | None,
        Option(
            "Also show the cost of every other layout of this argument, or why it is impossible.",
            metavar="NAME",
            belongs_to=_SHARDING,
            group="Further analyses",
        ),
    ] = None
    emit_iopddl: Annotated[
        str | None,
        Option(
            "Write the problem of method exact in the format of the IOPDDL contest (.json, .json.gz).",
            metavar="FILE",
            is_output=True,
            belongs_to=_SHARDING,
            group="Further analyses",
        ),
    ] = None
    emit_pipedream: Annotated[
        str | None,
        Option(
            "Write the profile in the text format of PipeDream and DAPPLE.",
            metavar="FILE",
            is_output=True,
            belongs_to=_PIPELINE,
            group="Further analyses",
        ),
    ] = None
    emit_piper: Annotated[
        str | None,
        Option(
            "Write the profile in Piper's JSON format.",
            metavar="FILE",
            is_output=True,
            belongs_to=_PIPELINE,
            group="Further analyses",
        ),
    ] = None


def require_own(options: ParallelOptions) -> None:
    """Raises :class:`~hardware.inputs.InputError` where an option is set that belongs to another strategy."""
    for each in option_fields(type(options)):
        needs = each.option.belongs_to
        value = getattr(options, each.name)
        if needs is not None and value != each.default and getattr(options, needs[0]) not in needs[1:]:
            name, *values = needs
            rule = f"applies only to --{name} {' or '.join(values)}, but --{name} is {getattr(options, name)}"
            raise fail("dse parallel", each.flag, value, rule)


def memory_bytes_of(options: ParallelOptions, hbm_bytes: int) -> int:
    """The memory of a device: what the options say, or the accelerator's.

    Raises:
        InputError: more than :data:`MAX_MEMORY_GB`.
    """
    if options.memory_gb is None:
        return hbm_bytes
    if not options.memory_gb <= MAX_MEMORY_GB:
        raise fail("dse parallel", "--memory-gb", options.memory_gb, f"must be at most {MAX_MEMORY_GB:,}")
    return bytes_from_gib(options.memory_gb)

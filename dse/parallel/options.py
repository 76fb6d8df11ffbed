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
            "sharding: tensors split over a mesh; pipeline: the forward part cut into stages; hybrid: "
            "stages whose tensors are split; all: the best of these, the plan with the shortest training step."
        ),
    ] = "sharding"
    mesh: Annotated[
        str,
        Option(
            "Number of devices, or named axes from the outermost inwards (data=4,model=8); a pipeline takes a number.",
            metavar="MESH",
        ),
    ] = "8"
    stages: Annotated[
        int | None,
        Option(
            "Stages of the pipeline; a hybrid plan may have fewer (default: one for each server, at least 2; with a "
            "profile that states its cuts, as many as they make).",
            min=1,
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = None
    microbatches: Annotated[
        int | None,
        Option(
            "Microbatches of a batch in a pipeline (default: 16; a hybrid plan of one stage may also have 1).",
            min=1,
            max=MAX_MICROBATCHES,
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = None
    device_cuts: Annotated[
        Literal["auto", "free", "near", "equal"],
        Option(
            "Devices of the stages. free: any neighbouring ones; near: in front of each cut at most 3 more or fewer "
            "than in equal stages, as in the paper; equal: the same number in each; auto: the freest of these with at "
            "most 50,000 ways to cut, or with --method inference the one that its policy was trained with.",
            belongs_to=_CUT,
            group="Pipelines and hybrid plans",
        ),
    ] = "auto"
    state: Annotated[
        StateName,
        Option(
            "What a device keeps of trained tensors: the weights; also gradients; also the optimizer's state.",
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = "optimizer"
    recompute: Annotated[
        bool,
        Option(
            "Keep only the input of a stage, and compute the rest again.",
            belongs_to=_STAGES,
            group="Pipelines and hybrid plans",
        ),
    ] = False
    objective: Annotated[
        Objective,
        Option(
            "cost: seconds of a step; count: split dimensions of trained tensors, the paper's reward.",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = "cost"
    method: Annotated[
        Method,
        Option(
            "exact: proven, tensors may be resharded; linkage: the best without resharding, as in the paper; dqn: deep "
            "Q-learning on the step, as in the paper; inference: for pipelines, the best of a pretrained policy's "
            "plans and of equal stages, all improved cut by cut; auto: linkage for --objective count, otherwise exact."
        ),
    ] = "auto"
    checkpoint: Annotated[
        str | None,
        Option(
            "The policy of method inference, as made by `dse pretrain pipeline` (default: the one in the package).",
            metavar="DIR",
            belongs_to=("method", "inference"),
            group="Search",
        ),
    ] = None
    decide: Annotated[
        Literal["variables", "inputs"],
        Option(
            "What method dqn splits: dimensions of trained tensors (operator plans), or of inputs (data plans).",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = "variables"
    accelerator: Annotated[str, Option("The accelerator that each device is.", metavar="SPEC")] = "a100-sxm"
    f32_products: Annotated[
        Float32Products,
        Option(
            "How products of float32 are computed. default: TF32 on A100 and H100, one pass of bfloat16 on TPUs; high: "
            "TF32, or three passes; highest: float32, or six passes; stated: as the step states it, and otherwise as "
            "its framework does: XLA by default, PyTorch by highest for matrix products and default for convolutions.",
            group="Input and cost model",
        ),
    ] = "stated"
    network: Annotated[
        str | None, Option("The network between devices (default: the accelerator's own).", metavar="SPEC")
    ] = None
    memory_gb: Annotated[
        float | None,
        Option(
            "Memory of a device in GB, for the arguments of the step, or for all that a stage of a pipeline stores "
            "(default: the accelerator's).",
            min=0.0,
        ),
    ] = None
    activations: Annotated[
        bool,
        Option(
            "The memory must also hold every intermediate tensor until its last use (method exact).",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = False
    overlap: Annotated[
        bool,
        Option(
            "Let communication run beside work where it can: gradients joined late, weights fetched ahead.",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = False
    pin: Annotated[
        tuple[str, ...],
        Option(
            "A layout that an argument must have: for each dimension an axis or -.",
            metavar="NAME=AXIS,-",
            belongs_to=_SHARDING,
            group="Sharding",
        ),
    ] = ()
    variables: Annotated[
        str | None,
        Option(
            "The trained arguments, one name per line (default: recognised by what the step does).",
            metavar="FILE",
            group="Input and cost model",
        ),
    ] = None
    why: Annotated[
        str | None,
        Option(
            "Also show what every other layout of this argument costs, or what forbids it.",
            metavar="NAME",
            belongs_to=_SHARDING,
            group="Further analyses",
        ),
    ] = None
    emit_iopddl: Annotated[
        str | None,
        Option(
            "Write the problem of method exact, with its costs, in the format of the IOPDDL contest (.json, .json.gz).",
            metavar="FILE",
            is_output=True,
            belongs_to=_SHARDING,
            group="Further analyses",
        ),
    ] = None
    emit_pipedream: Annotated[
        str | None,
        Option(
            "Write the profile for the planners of PipeDream and DAPPLE (text).",
            metavar="FILE",
            is_output=True,
            belongs_to=_PIPELINE,
            group="Further analyses",
        ),
    ] = None
    emit_piper: Annotated[
        str | None,
        Option(
            "Write the profile for Piper (JSON).",
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
            rule = f"belongs to --{needs[0]} {' or '.join(needs[1:])}, but --{needs[0]} is {getattr(options, needs[0])}"
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

"""A training plan: how a training step is spread over devices and pipelined, what it keeps and what it recomputes.

Ranks are counted with the tensor axis innermost, then context, data and the pipeline outermost (Megatron-LM's order),
or in another order of these axes; experts are spread over the ranks of one pipeline stage, so that the expert axis
takes part in no product.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import permutations
from typing import Any, Literal, get_args, get_type_hints

from dse.plan.key_values import pairs_of, require_once
from dse.plan.recomputation import MODULES, RECOMPUTE_RULE, modules_of, recompute_word
from dse.run.options import option_of
from hardware.documents import read_document, yaml_of
from hardware.inputs import Fault, InputError, fail, nearest, shown
from hardware.number_text import number_of
from hardware.precisions import Precision

Schedule = Literal["1f1b", "gpipe", "zb1p", "dualpipe"]

DRAWN_SCHEDULES: tuple[Schedule, ...] = ("1f1b", "gpipe")
"""Whose passes are whole, and of one stage a device: those of the others have no order here."""

ROUNDS: Mapping[str, tuple[int, int]] = {"zb1p": (1, 1), "dualpipe": (2, 2)}
"""Microbatches for each stage that a schedule needs at least, and a divisor of their number: with fewer, less than what
its bubbles are said to hold would fill them (DualPipe's ``step`` refuses them)."""

AXES = ("tensor", "context", "data", "pipeline")
"""Of the mesh: they multiply to the devices."""

ORDERS = tuple("-".join(axes) for axes in permutations(AXES))
"""Of the axes, the innermost first; the first is the usual one."""

USUAL_ORDER, PIPELINE_INSIDE = ORDERS[0], "tensor-context-pipeline-data"
"""Megatron-LM's order, and that of its ``--use-tp-pp-dp-mapping``."""

StoredPrecision = Literal["stack", "fp32", "bf16", "fp16", "fp8"]
"""Of state and of transfers; ``stack``: as the software stack has it."""

CrossEntropy = Literal["stack", "fused", "unfused", "chunked"]
"""Whether the loss is one kernel that keeps no tensors of the size of the logits between its steps, PyTorch's
operators, or computed with the output matrix by chunks of tokens, so that logits of one chunk exist at a time."""

Offload = Literal["stack", "optimizer", "activations", "optimizer+activations"]
"""What is kept in the host's memory; ``stack``: nothing, as in every stack here."""

Overlap = Literal["stack", "yes", "no"]
"""Whether communication is hidden; ``stack``: as the software stack does."""

PartialPlan = Mapping[str, Any]
"""Some keys of a plan with their values; the others are open."""

SCHEMA = "dse.plan/1"
_SUFFIXES = (".yaml", ".yml", ".json")
_FLAGS = ("yes", "no")
_YES_NO = {"yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True)
class TrainingPlan:
    """A whole plan.

    Attributes:
        tensor: devices over which each layer's matrices are cut (Shoeybi et al., Megatron-LM, 2019).
        sequence_parallel: whether these devices also cut what lies between the matrices (Korthikanti et al. 2022).
        context: devices over which the tokens of a sample are cut in a ring (Liu et al., Ring Attention, 2023).
        expert: devices over which the experts of a layer are spread, each whole.
        data: replicas.
        pipeline: stages.
        interleave: chunks of layers of a stage (Narayanan et al., SC 2021, section 2.2.2).
        schedule: of the microbatches; ``gpipe`` runs all forward passes first, ``zb1p`` fills bubbles with gradients of
            weights (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024), ``dualpipe`` feeds them from both ends
            (DeepSeek-V3, 2024, section 3.2.1): a device has two stages, one from each end.
        zero: what replicas share out: 0 nothing, 1 optimizer state, 2 gradients too, 3 weights too (Rajbhandari et al.
            2020); 3 is FSDP.
        microbatch: samples of a replica that pass the pipeline together.
        recompute: what backward passes recompute (:mod:`dse.plan.recomputation`): ``none``; ``selective``, the core of
            attention; modules of a layer joined by ``+``; ``op``, all but attention and every second matrix product
            (torchtitan's option); ``full``, whole layers; ``full/K``, the first of every K layers of a stage.
        precision: of the operands of linear layers.
        zero_copies: sets of replicas that each have the whole of what ``zero`` shares out: hybrid sharding (Zhang et
            al., MiCS, 2022; FSDP's replicate dimension). Neighbouring replicas share.
        order: of the axes of the mesh, the innermost first.
        first_layers, last_layers: layers of the first and the last stage; 0: as many as the others, as far as possible.
        weights: precision of the weights that passes read.
        gradients: precision of the gradients that microbatches accumulate.
        moments: precision of both moments of the optimizer.
        gradient_transfer: precision in which replicas reduce gradients.
        weight_transfer: precision in which replicas gather weights.
        overlap_tensor, overlap_context, overlap_expert: whether the collectives of this axis overlap with compute.
        overlap_gradients: whether the reduction of gradients overlaps with compute.
        overlap_weights: whether the gathering of weights overlaps with compute.
        overlap_pipeline: whether transfers between stages overlap with compute.
        cross_entropy: whether the loss is one kernel over the logits, PyTorch's operators in sequence, or the output
            matrix and the loss by chunks of tokens (Liger Kernel; Hsu et al. 2024, section 3.2).
        offload: what is kept in the host's memory and passes over its link: state of the optimizer, whose parts come
            for their update and go back (MaxText, ``optimizer_memory_host_offload``); what layers store for their
            backward passes, but for two of them (``remat_policy`` with offloading).
    """

    tensor: int
    sequence_parallel: bool
    context: int
    expert: int
    data: int
    pipeline: int
    interleave: int
    schedule: Schedule
    zero: int
    microbatch: int
    recompute: str
    precision: Precision
    zero_copies: int = 1
    order: str = USUAL_ORDER
    first_layers: int = 0
    last_layers: int = 0
    weights: StoredPrecision = "stack"
    gradients: StoredPrecision = "stack"
    moments: StoredPrecision = "stack"
    gradient_transfer: StoredPrecision = "stack"
    weight_transfer: StoredPrecision = "stack"
    overlap_tensor: Overlap = "stack"
    overlap_context: Overlap = "stack"
    overlap_expert: Overlap = "stack"
    overlap_gradients: Overlap = "stack"
    overlap_weights: Overlap = "stack"
    overlap_pipeline: Overlap = "stack"
    cross_entropy: CrossEntropy = "stack"
    offload: Offload = "stack"

    @property
    def devices(self) -> int:
        """Of the whole mesh."""
        return self.tensor * self.context * self.data * self.pipeline

    def text(self) -> str:
        """The short form, which :func:`read_plan` reads; what no choice leaves open is left out."""
        implied = self.implied
        keys = (each.name for each in fields(self) if each.name not in implied)
        return ",".join(f"{key}={_word(getattr(self, key))}" for key in keys)

    @property
    def implied(self) -> set[str]:
        """Keys that have the only value that would be tried with the others, where they are left open."""
        implied = {key for key in SETTINGS if getattr(self, key) == AS_STACK}
        implied |= {key for key in ("first_layers", "last_layers") if getattr(self, key) == 0}
        if self.order == USUAL_ORDER and 1 in (self.pipeline, self.data):
            implied.add("order")
        if self.zero_copies == 1 and (self.zero == 0 or self.data == 1):
            implied.add("zero_copies")
        return implied

    def is_given_by(self, fixed: PartialPlan) -> bool:
        """Whether the keys of ``fixed`` leave nothing to choose."""
        return {*CHOSEN_KEYS} <= {*fixed} | self.implied

    def document(self) -> dict[str, Any]:
        """The keys and values in JSON types; ``offload``, which came later, where it says something."""
        document = asdict(self)
        if self.offload == AS_STACK:
            del document["offload"]
        return document


AS_STACK = "stack"

KEYS = tuple(each.name for each in fields(TrainingPlan))

SETTINGS = ("precision", *KEYS[KEYS.index("weights") :])
"""Keys that are never chosen: what is not fixed of them is as the stack has it."""

CHOSEN_KEYS = tuple(key for key in KEYS if key not in SETTINGS)
"""Keys that are chosen where they are open."""

ALIASES = {
    "tp": "tensor", "sp": "sequence_parallel", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline",
    "vp": "interleave", "vpp": "interleave", "mbs": "microbatch", "micro_batch_size": "microbatch",
} | {
    f"{axis}{ending}": axis
    for axis in (*AXES, "expert")
    for ending in ("_parallel", "_parallel_size", "_parallel_degree", "_model_parallel_size")
}  # fmt: skip
"""Of other tools (Megatron-LM and torchtitan), with hyphens or without; each is taken for a key."""

_ZERO_3 = "zero=3, with zero_copies for the number of full replicas"
_OTHERWISE = {
    "fsdp": _ZERO_3,
    "dp_shard": _ZERO_3,
    "dp_replicate": "zero_copies",
    "gas": "--global-batch and microbatch",
}
"""Words of other tools for what other keys say."""

_TYPES = get_type_hints(TrainingPlan)
_LARGEST = 2**24
_LOWEST = {"zero": 0, "first_layers": 0, "last_layers": 0}


def read_plan(text: str) -> dict[str, Any]:
    """The keys that ``text`` fixes: ``KEY=VALUE,…``, a file of them (YAML or JSON), or nothing.

    Raises:
        InputError: an unknown key, or a value that its key cannot have, one fault each (the nearest one is offered).
    """
    if not text:
        return {}
    if text.endswith(_SUFFIXES):
        return _from_file(text)
    pairs = pairs_of(text)
    require_once([key for key, _ in pairs], "--plan")
    return _typed({key: _value(value) for key, value in pairs}, "--plan")


def whole_plan(document: Any, where: str) -> TrainingPlan:
    """The plan that :meth:`TrainingPlan.document` wrote.

    Raises:
        InputError: a key that is missing or unknown, or a value that its key cannot have.
    """
    if not isinstance(document, dict):
        raise fail(where, "", shown(document), "must be a mapping of plan keys to values")
    missing = [Fault(where, key, "", "must be given") for key in KEYS if key not in document and key != "offload"]
    if missing:
        raise InputError(missing)
    return TrainingPlan(**_typed(document, where))


def yaml_text(plan: TrainingPlan) -> str:
    """A file that :func:`read_plan` reads."""
    words = {key: _word(value) if isinstance(value, bool) else value for key, value in asdict(plan).items()}
    words = {key: value for key, value in words.items() if key not in SETTINGS or value != AS_STACK}
    modules = modules_of(plan.recompute)
    if len(modules) > 1 or modules == (plan.recompute,):
        words["recompute"] = [*modules]
    return yaml_of({"schema": SCHEMA, **words}, sort_keys=False)


def _from_file(path: str) -> dict[str, Any]:
    document = read_document(path)
    if not isinstance(document, dict):
        raise fail(path, "", document, "must be a mapping of keys to values")
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise fail(path, "schema", schema, f"must be {SCHEMA}")
    given = {key: _value(value) for key, value in document.items() if key != "schema"}
    return _typed(given, path)


def _value(value: Any) -> Any:
    """Text of the short form or of YAML as what it stands for."""
    if not isinstance(value, str):
        return value
    if value in _YES_NO:
        return _YES_NO[value]
    return int(value) if value.isascii() and value.isdigit() and len(value) < 12 else value


def _typed(read: Mapping[str, Any], where: str) -> dict[str, Any]:
    named = [ALIASES.get(str(key).lower().replace("-", "_"), key) for key in read]
    repeated = next((key for key in named if named.count(key) > 1), None)
    if repeated is not None:
        raise fail(where, str(repeated), "", "the key is given twice")
    read = dict(zip(named, read.values(), strict=True))
    given = {key: _word(value) if _TYPES.get(key) is Overlap else value for key, value in read.items()}
    again = recompute_word(given.get("recompute"))
    given |= {} if again is None else {"recompute": again}
    faults = [fault for key, value in given.items() if (fault := _fault(key, value, where)) is not None]
    if faults:
        raise InputError(faults)
    return {key: given[key] for key in KEYS if key in given}


def _fault(key: str, value: Any, where: str) -> Fault | None:
    if key not in KEYS:
        if option := option_of(str(key)):
            return Fault(where, str(key), "", f"is not a plan key; use {option}")
        if words := _OTHERWISE.get(str(key).lower()):
            return Fault(where, str(key), "", f"is not a plan key; use {words}")
        meant = nearest(str(key), KEYS)
        known = "" if meant else f"; known: {', '.join(KEYS)}"
        return Fault(where, str(key), "", f"is not a plan key{known}", meant)
    kind = _TYPES[key]
    word = _word(value)
    if kind is bool:
        return None if isinstance(value, bool) else Fault(where, key, word, "must be yes or no", nearest(word, _FLAGS))
    if kind is int:
        return _number_fault(key, value, where)
    if key == "recompute":
        return (
            None if recompute_word(value) is not None else Fault(where, key, word, RECOMPUTE_RULE, _nearest_set(value))
        )
    if key == "order":
        if value in ORDERS:
            return None
        rule = f"must be a permutation of {', '.join(AXES[:-1])} and {AXES[-1]}, innermost first, such as {USUAL_ORDER}"
        return Fault(where, key, word, rule, nearest(word, ORDERS))
    choices = get_args(kind)
    if value in choices:
        return None
    return Fault(where, key, word, f"must be one of {', '.join(choices)}", nearest(word, choices))


def _nearest_set(value: Any) -> str | None:
    """What to recompute, with each word replaced by the nearest known one, once."""
    words = value if isinstance(value, list) else shown(value).split("+")
    close = [nearest(shown(word), ("none", "selective", "op", "full", "full/2", *MODULES)) for word in words]
    # The core of attention has two names.
    named = [MODULES[0] if word == "selective" else word for word in close if word is not None]
    return recompute_word("+".join(dict.fromkeys(named)))


def _number_fault(key: str, value: Any, where: str) -> Fault | None:
    low, high = _LOWEST.get(key, 1), 3 if key == "zero" else _LARGEST
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return None
    number = _number(value)
    rule = "must be 0, 1, 2 or 3" if key == "zero" else f"must be a whole number of at least {low}"
    if key != "zero" and number is not None and number > high:
        rule += f", at most {high:,}"
    suggestion = None if number is None else str(min(max(round(number), low), high))
    return Fault(where, key, _word(value), rule, suggestion)


def _number(value: Any) -> float | None:
    """A value, or text that stands for one, as a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = number_of(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else shown(value)

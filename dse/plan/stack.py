"""Software stacks: what a training framework keeps in memory, what it overlaps, and the rates that it sustains.

A stack is a spec (``stacks/*.yaml``) of facts, which its documentation or code states, and of at most four constants
that are assumed (the stack ``generic``), or fitted to at most two measured runs, which the spec names: the sustained
shares of a machine's peak rates, and what an allocator reserves beyond what tensors take. A share that was timed with
the kernel that the stack has is a fact.
"""

import math
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from dse.plan.recomputation import ALL_SETS, RECOMPUTE_RULE, recompute_word
from hardware.chip_spec import Platform
from hardware.chips import Chip, list_chips
from hardware.chips import chip as read_chip
from hardware.derating import KernelClass, derating
from hardware.documents import read_document
from hardware.input_files import noting, read_once
from hardware.inputs import choose, validate
from hardware.network import Network
from hardware.spec_fields import Choice, Share, Source, StrictModel, is_path
from hardware.sustained import SUSTAINED_RATES, AttentionKernelName


class SharedRate(StrictModel):
    """The sustained share of a peak rate.

    ``fitted`` names the runs that it was fitted to, ``fitted_on`` their accelerators where they are not the stack's.
    ``assumed``: nothing was measured; if an accelerator's spec has the share of timed kernels, that is used instead.
    ``timed_on``: the accelerator on which kernels were timed that sustain this share.
    """

    value: Share
    source: Source
    fitted: tuple[str, ...] = ()
    fitted_on: tuple[str, ...] = ()
    assumed: bool = False
    timed_on: str = ""

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if sum(map(bool, (self.fitted, self.assumed, self.timed_on))) > 1:
            raise ValueError("must have at most one of fitted, assumed and timed_on")
        if self.fitted_on and not self.fitted:
            raise ValueError("fitted_on requires fitted, the runs that the rate was fitted to")
        return self


TrafficBytes = Annotated[float, Field(ge=0, le=256)]


class Bytes(StrictModel):
    """Bytes of state for each parameter."""

    value: Annotated[float, Field(ge=0, le=64)]
    source: Source


class PartOfChip(StrictModel):
    """A part of a chip's processors."""

    value: Annotated[float, Field(ge=0, lt=1)]
    source: Source


class RingBytes(StrictModel):
    """Memory traffic that a step of a ring of keys and values adds, in bytes.

    ``value``: for each element of the results of attention and of keys and values in a forward pass, and of the
    gradients of queries, and of keys and values, in a backward pass.
    """

    value: tuple[TrafficBytes, TrafficBytes, TrafficBytes, TrafficBytes]
    source: Source


class LaunchSeconds(StrictModel):
    """Seconds of the host for each kernel."""

    value: Annotated[float, Field(ge=0, le=1e-3)]
    source: Source


class Month(StrictModel):
    """When software was as a spec has it: year and month."""

    value: Annotated[str, Field(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
    source: Source


class Platforms(StrictModel):
    """Platforms of chips on which software runs."""

    value: Annotated[tuple[Platform, ...], Field(min_length=1)]
    source: Source


class MeasuredOn(StrictModel):
    """Accelerators with published runs."""

    value: Annotated[tuple[str, ...], Field(min_length=1)]
    source: Source


class BufferBytes(StrictModel):
    """Bytes of a rank's buffers in one communicator."""

    value: Annotated[float, Field(ge=0, le=2**40)]
    source: Source


class ReservedRatio(StrictModel):
    """What a caching allocator has reserved for tensors that come and go within a step, over what these take.

    Those are activations and working memory, of many sizes, between which gaps stay. Weights, gradients and optimizer
    state are counted as their tensors, which is an assumption. ``fitted`` as of a rate.
    """

    value: Annotated[float, Field(ge=1, le=4)]
    source: Source
    fitted: tuple[str, ...] = ()


class Recomputations(StrictModel):
    """Modes of recomputation that are tried where a plan leaves it open, each once.

    ``modules`` stands for sets of the modules of a model (:func:`dse.plan.recomputation.module_sets`).
    """

    value: Annotated[tuple[str, ...], Field(min_length=1)]
    source: Source

    @field_validator("value")
    @classmethod
    def _has_known_modes_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        words = tuple(word if word == ALL_SETS else recompute_word(word) for word in value)
        if None in words:
            raise ValueError(f"each {RECOMPUTE_RULE}")
        if len(set(words)) < len(words):
            raise ValueError("must not repeat a mode")
        return value


class AttentionKernel(StrictModel):
    """Whether attention keeps its scores, and which kernel does not; None where that is not known."""

    value: Literal["fused", "unfused"]
    source: Source
    kernel: AttentionKernelName | None = None

    @model_validator(mode="after")
    def _has_a_kernel_only_if_fused(self) -> Self:
        if self.kernel is not None and self.value != "fused":
            raise ValueError(f"kernel must be left out of attention that is {self.value}")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_known(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As :class:`Stack` does."""
        return {key: value for key, value in handler(self).items() if value is not None}


class LossKernel(StrictModel):
    """Whether the cross entropy is one kernel over the logits, PyTorch's operators, or by chunks of tokens."""

    value: Literal["fused", "unfused", "chunked"]
    source: Source


class Stack(StrictModel):
    """A software stack.

    Attributes:
        name, description: for people.
        date: of the version that was measured; None of no particular one.
        platforms: on which it runs; None where that is not known.
        measured_on: accelerators with published runs of it, whether or not a rate was fitted to them; None without any.
        use: a ``framework``, a ``submission`` to a benchmark, which is tuned to its models, or ``in-house`` software,
            which nobody else can run.
        attention: ``fused`` keeps no scores (Dao et al., FlashAttention, 2022) and skips what a causal mask hides.
        cross_entropy: ``fused`` holds 4 bytes a logit, ``unfused`` what PyTorch's operators hold at their peak,
            ``chunked`` logits of a chunk of tokens.
        overlaps_tensor: whether collectives of the tensor axis overlap with the linear layers that they belong to.
        gathers_again: whether a backward pass gathers the inputs of cut matrices again over the tensor axis, instead of
            keeping them whole.
        gathers_operands: whether the tensor axis gathers them, and gradients, as the products take them: in 8 bits,
            where these have such operands.
        keeps_ends_gathered: whether embedding and output matrix, gathered by ZeRO 3 for a forward pass, stay so for the
            backward pass.
        buffers_gathered: whether ZeRO 3 gathers into buffers of a memory pool of their own, and copies from there: what
            the pool took for ends that stay gathered, it keeps.
        overlaps_data: whether gradients and weights travel during backward and forward passes.
        overlaps_pipeline: whether an interleaved schedule hides its transfers.
        overlaps_context: whether keys and values travel during the core of attention.
        ring_bytes: of memory traffic beside attention in each step of the ring of the context axis.
        repeats_keys: whether keys and values go round it once for each head of queries, instead of for each of theirs.
        overlaps_expert: whether tokens travel to experts and back during the compute of another microbatch.
        deduplicates_tokens: whether a token goes to each node once, for all of its experts there, and is copied inside;
            otherwise once for each of its experts.
        dispatch_bytes: of an element of tokens on their way to experts, and of gradients there; back it is 2.
        exchange_processors: the part of a chip's processors that is set aside for exchanges with experts where these
            overlap with compute.
        sorts_tokens: whether tokens for several experts of a rank are copied once more after their dispatch, sorted by
            expert, and back before they are combined.
        launch_s: until the host has launched a kernel, and can launch the next one; 0 where graphs or compilers save
            it.
        fuses_expert_biases: whether biases of the experts' last products are added as these are made; otherwise
            expert by expert, and the results joined.
        recomputations: modes of recomputation that the framework has.
        settings_file: the file of settings, of those that a plan is exported as, that the framework reads.
        activation_input_bytes: kept of an element that an activation function reads.
        cast_bytes: of memory traffic for an element that is cast to 8 bits with one scale a tensor.
        weight_bytes, gradient_bytes, optimizer_bytes: kept for each parameter.
        moment_bytes: of optimizer_bytes, those of both moments.
        gradient_transfer_bytes, weight_transfer_bytes: sent for each parameter in a reduction of gradients and in a
            gathering of weights.
        communicator_bytes: what the library of collectives allocates on a rank for each group that it is in.
        reserved: what the allocator reserves for activations and working memory over what these take; None where it is
            not known, and memory is that of
            tensors.
        matrix, attention_rate, memory, link: sustained shares of the peak of matrix products, of that in fused
            attention, of memory and of the network; of a template, of the ideal times of its kernels.
        grouped: that of the products of experts, on a template; ``matrix`` where it is not known.
        fitted_on: the accelerators of the runs that rates were fitted to, but for rates that name their own; none where
            no rate was fitted.
    """

    name: str
    description: str
    date: Month | None = None
    platforms: Platforms | None = None
    measured_on: MeasuredOn | None = None
    use: Literal["framework", "submission", "in-house"] = "framework"
    attention: AttentionKernel
    cross_entropy: LossKernel = LossKernel(
        value="fused", source="Korthikanti et al. 2022, section 4.3: 32-bit logits are kept for the cross entropy"
    )
    overlaps_tensor: Choice
    gathers_again: Choice = Choice(
        value=True,
        source="Korthikanti et al. 2022, section 4.2.2: one shard is stored and gathered again when needed",
    )
    gathers_operands: Choice = Choice(value=False, source="Megatron-LM: activations travel in 16 bits")
    keeps_ends_gathered: Choice = Choice(
        value=False, source="Rajbhandari et al., ZeRO, 2020, section 7.2.2: weights are discarded once they are used"
    )
    buffers_gathered: Choice = Choice(
        value=False, source="Rajbhandari et al., ZeRO, 2020, section 7.2.2: weights are gathered where passes read them"
    )
    overlaps_data: Choice
    overlaps_pipeline: Choice
    overlaps_context: Choice = Choice(
        value=True, source="Liu et al., Ring Attention, 2023: blocks of keys travel while others are attended to"
    )
    ring_bytes: RingBytes = RingBytes(
        value=(6, 0, 6, 10),
        source="Transformer Engine, context_parallel.py, AttnFuncWithCPAndKVP2P: flash_attn_fwd_out_correction adds "
        "each step's result to that of all; gradients of queries are added to those of earlier steps, those of keys "
        "and values joined and added to what the ring brings; elements of 16 bits",
    )
    repeats_keys: Choice = Choice(value=False, source="kernels of attention read a head of keys for several of queries")
    overlaps_expert: Choice = Choice(
        value=False, source="an exchange waits for the router, and experts wait for the exchange"
    )
    deduplicates_tokens: Choice = Choice(
        value=False, source="an all-to-all of a collective library: a copy of a token for each of its experts"
    )
    dispatch_bytes: Bytes = Bytes(value=2, source="activations travel in 16 bits")
    exchange_processors: PartOfChip = PartOfChip(value=0, source="not known")
    sorts_tokens: Choice = Choice(
        value=False, source="DeepEP and HybridEP deliver tokens by expert; one copy before and one after"
    )
    launch_s: LaunchSeconds = LaunchSeconds(value=0, source="not known: kernels are launched in time")
    fuses_expert_biases: Choice = Choice(value=True, source="a bias is added where its product is made")
    recomputations: Recomputations = Recomputations(
        value=("none", "selective", "full", "full/2", "full/4", "full/8"),
        source="Megatron-LM: --recompute-granularity selective and full, --recompute-method block",
    )
    settings_file: Literal["megatron.args", "torchtitan.toml", "maxtext.yml", "deepspeed.json"] | None = None
    activation_input_bytes: Bytes = Bytes(value=2, source="activations are kept in 16 bits")
    cast_bytes: Bytes = Bytes(
        value=4,
        source="Transformer Engine, DelayedScaling: scales of earlier steps; a tensor is read once and written by rows "
        "and columns",
    )
    weight_bytes: Bytes
    gradient_bytes: Bytes
    optimizer_bytes: Bytes
    moment_bytes: Bytes = Bytes(value=8, source="Adam: momentum and variance of 4 bytes each")
    gradient_transfer_bytes: Bytes
    weight_transfer_bytes: Bytes = Bytes(value=2, source="weights are gathered as passes read them, in 16 bits")
    communicator_bytes: BufferBytes = BufferBytes(value=0, source="no particular collective library")
    reserved: ReservedRatio | None = None
    matrix: SharedRate
    attention_rate: SharedRate
    memory: SharedRate
    link: SharedRate
    grouped: SharedRate | None = None
    fitted_on: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _says_what_it_was_fitted_on(self) -> Self:
        if bool(self.fitted_on) != self.is_fitted:
            raise ValueError("fitted_on must be given if and only if a rate is fitted")
        if self.moment_bytes.value > self.optimizer_bytes.value:
            raise ValueError(f"moment_bytes must be at most optimizer_bytes ({self.optimizer_bytes.value:g})")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_known(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that digests of stacks without it are as they were before there was any."""
        document: dict[str, Any] = handler(self)
        for key in ("reserved", "grouped", "date", "platforms", "measured_on"):
            if document.get(key) is None:
                document.pop(key, None)
        for key in _LATER_FACTS:
            if getattr(self, key) == type(self).model_fields[key].default:
                document.pop(key, None)
        return document

    def runs_on(self, chip: Chip) -> bool:
        """Whether it runs on the platform of the chip, as far as both are known."""
        return not chip.platform or self.platforms is None or chip.platform in self.platforms.value

    @property
    def is_fitted(self) -> bool:
        """Whether any of its rates was fitted to measured runs."""
        return any(rate.fitted for rate in self.rates.values())

    @property
    def rates(self) -> Mapping[str, SharedRate]:
        """The sustained shares by their keys."""
        return {key: getattr(self, key) for key in SUSTAINED_RATES}

    def on_chip(self, chip: Chip, width: int, tokens: int, precision: str) -> "Stack":
        """The stack on an accelerator: shares of kernels that were timed there replace assumed ones.

        Those of a kernel that the stack names also replace one that was timed on a single shape.
        A fitted share of products is taken in proportion to what timed products sustain there, and on the accelerators
        that it was fitted on. ``width`` is that of a head's queries and keys, ``tokens`` those of a sample,
        ``precision`` that of the operands of linear layers.
        """
        known = chip.sustained.on(width, tokens, precision, self.attention.kernel)
        names_kernel = self.attention.kernel is not None
        timed: dict[str, SharedRate] = {
            rate: SharedRate(value=value, source=source, timed_on=chip.timed_on)
            for rate, value, source in known
            if self.rates[rate].assumed or (rate == "attention_rate" and names_kernel and self.rates[rate].timed_on)
        }
        if self.matrix.fitted:
            there = chip.product_ratio(precision)
            known_chips = [name for name in self.matrix.fitted_on or self.fitted_on if name in list_chips()]
            fitted_at = [read_chip(name).product_ratio(precision) for name in known_chips]
            if fitted_at:
                value = min(1.0, self.matrix.value * (there / math.prod(fitted_at) ** (1 / len(fitted_at))))
                timed["matrix"] = self.matrix.model_copy(update={"value": value})
        return self.model_copy(update=timed)

    def measured_elsewhere(self, chip: str) -> dict[str, tuple[str, ...]]:
        """The rates that were fitted or timed on other accelerators than ``chip`` alone, with these accelerators."""
        chips = {key: rate.fitted_on or self.fitted_on for key, rate in self.rates.items() if rate.fitted}
        chips |= {key: (rate.timed_on,) for key, rate in self.rates.items() if rate.timed_on}
        return {key: names for key, names in chips.items() if chip not in names}


_LATER_FACTS = (
    "use",
    *("deduplicates_tokens", "dispatch_bytes", "exchange_processors", "activation_input_bytes"),
    *("cast_bytes", "launch_s", "fuses_expert_biases", "ring_bytes", "repeats_keys"),
)
"""That stacks of earlier versions did not have."""

_TEMPLATE = "template"

_FUSED = AttentionKernel(value="fused", source="Dao et al., FlashAttention, 2022: scores stay on chip")


def list_stacks() -> list[str]:
    """Names of the built-in stacks of real machines, sorted."""
    files = resources.files("dse.plan").joinpath("stacks").iterdir()
    names = {file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")}
    return sorted(names - {_TEMPLATE})


@read_once
def stack(name_or_path: str) -> Stack:
    """The stack of this name, or of a user's own file.

    Raises:
        InputError: no stack of this name (the nearest one is offered), or a fault in the file.
    """
    if is_path(name_or_path):
        return validate(Stack, read_document(name_or_path), name_or_path)
    return _built_in(choose("", "--stack", name_or_path, list_stacks(), "stack"))


def template_stack(network: Network, ideal: bool = False, fused: bool = False) -> Stack:
    """The stack of accelerators of the searched template, whose kernels are mapped to their cores.

    It is not a choice for a machine by its data sheet, none of whose peaks anything sustains.

    Args:
        network: what joins them; one whose spec charges latencies has the constants of real links, and is not derated.
        ideal: whether kernels take the ideal times of their mappings, instead of :func:`derated_rates`.
        fused: whether attention keeps no scores.
    """
    own = _built_in(_TEMPLATE)
    if fused:
        own = own.model_copy(update={"attention": _FUSED})
    return own if ideal else own.model_copy(update=dict(derated_rates(network)))


def derated_rates(network: Network) -> Mapping[str, SharedRate]:
    """Shares of ideal times that stand for what these overshoot on chips with measured kernels, by their keys."""
    innermost = network
    while innermost.inner is not None:
        innermost = innermost.inner
    is_plain = not (innermost.latency_s or innermost.launch_s or innermost.timed)
    classes = derating().classes
    keys: dict[str, KernelClass] = {
        "matrix": "dense",
        "grouped": "grouped",
        "attention_rate": "attention",
        "memory": "vector",
    }
    if is_plain:
        keys["link"] = "collective"
    shares = {
        key: SharedRate(
            value=1 / classes[name].factor,
            source=f"derated: ideal times of {name} kernels are {classes[name].factor:.3g} times too short on "
            f"{classes[name].chips}",
        )
        for key, name in keys.items()
    }
    if not is_plain:
        shares["link"] = SharedRate(value=1, source="the network's spec has the constants of real links")
    return shares


def _built_in(name: str) -> Stack:
    with noting(), resources.as_file(resources.files("dse.plan").joinpath("stacks", f"{name}.yaml")) as path:
        return validate(Stack, read_document(path), f"stacks/{name}.yaml")

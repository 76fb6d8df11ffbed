"""Hugging Face ``transformers``: from a ``config.json`` to a module on the meta device, without weights or network."""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.graph.trace import Trace
from dse.importer.libraries import libraries
from dse.importer.torch.module import Mode, trace_module
from dse.importer.user_code import guarded
from hardware.documents import read_document
from hardware.inputs import Fault, InputError, fail, nearest

if TYPE_CHECKING:
    import torch

POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
"""Keys of configs that may state the greatest length of a sample."""

_HEADS = ("PRETRAINING", "CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION")
_LABELS = ("labels", "next_sentence_label", "sentence_order_label", "start_positions", "end_positions")
_IMAGE_TOKENS = ("image_token_id", "image_token_index", "image_token")
"""Keys of configs whose tokens say where images stand."""

_PER_SAMPLE = ("ForSequenceClassification", "ForImageClassification", "ForMultipleChoice")

_MAX_LAYERS = 512
"""Layers, stages, blocks or experts that a config may state; each is traced operator by operator."""

_MAX_SIZE = 2**24
"""Any other whole number of a config, but for the base of rotary angles."""

_LAYER_WORDS = ("layer", "depth", "block", "stage", "expert")
_MAX_MODULES = 100_000


def trace_config(path: Path, model: str, microbatch: int, sequence: int | None, mode: Mode = "training") -> Trace:
    """The graph of the class that a ``config.json`` describes; in training with its loss.

    The class is the one that ``architectures`` names, otherwise the one that this ``model_type`` is pre-trained with.
    Attention is written out (``attn_implementation="eager"``) and nothing is cached between steps.

    Args:
        path: the file.
        model: what the model is called.
        microbatch: samples.
        sequence: tokens of a sample; the maximum that the config allows when None.
        mode: in ``inference`` the class gets no labels, and has no loss then.

    Raises:
        InputError: PyTorch or transformers is missing, the config names no class of it, a sequence that it does not
            allow, or a module that does not trace.
    """
    document = read_document(path)
    faults = [*_size_faults(path, document)]
    if faults:
        raise InputError(faults)
    torch, transformers = libraries(path, "torch", "transformers")
    transformers.logging.set_verbosity_error()
    known = sorted(transformers.CONFIG_MAPPING.keys())
    kind = str(document["model_type"])
    if kind not in known:
        raise fail(path, "model_type", kind, "transformers has no model of this type", nearest(kind, known))
    config = guarded(
        str(path), lambda: transformers.CONFIG_MAPPING[kind].from_dict(document, attn_implementation="eager")
    )
    config.use_cache = False
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0  # which one is of no matter here
    cls = _model_class(path, config, document)

    # kernels for mixtures of experts accept 16 bits only, some other classes 32 bits only
    dtype = torch.bfloat16 if any("experts" in key for key in config.to_dict()) else torch.float32

    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        if part is not None:
            part.dtype = dtype

    def build() -> Any:
        with torch.device("meta"):
            return cls(config)

    with _default_dtype(dtype), _limited_modules(path), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")  # refused in a line of its own
        module = guarded(str(path), build)
    for part in module.modules():
        if hasattr(part, "warn_if_padding_and_no_attention_mask"):
            part.warn_if_padding_and_no_attention_mask = lambda *_: None  # looks at the tokens themselves
    with torch.device("meta"):
        inputs = _inputs(path, config, cls, sequence, _LABELS if mode == "training" else ())
    return trace_module(module, inputs, model, microbatch, str(path), mode)


def _size_faults(path: Path, document: Any, place: str = "") -> Iterator[Fault]:
    """Whole numbers so large that the model could not be traced: a damaged file, or one in other units."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        here = f"{place}.{key}" if place else str(key)
        if isinstance(value, dict | list):
            yield from _size_faults(path, value, here)
        elif isinstance(value, int) and not isinstance(value, bool) and "theta" not in here:
            counts = "size" not in here and any(word in here for word in _LAYER_WORDS)
            limit = _MAX_LAYERS if counts else _MAX_SIZE
            if value > limit:
                yield Fault(str(path), here, str(value), f"must be at most {limit:,}")


@contextmanager
def _default_dtype(dtype: "torch.dtype") -> Iterator[None]:
    """Modules that are made meanwhile have weights of this type."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _limited_modules(path: Path) -> Iterator[None]:
    """Refuses a model of more modules than :data:`_MAX_MODULES` while it is built."""
    from torch.nn.modules.module import register_module_module_registration_hook

    count = 0

    def counted(_module: Any, _name: str, _part: Any) -> None:
        nonlocal count
        count += 1
        if count > _MAX_MODULES:
            raise fail(path, "", "", f"describes a model of more than {_MAX_MODULES:,} modules, the limit")

    handle = register_module_module_registration_hook(counted)
    try:
        yield
    finally:
        handle.remove()


def _model_class(path: Path, config: Any, document: dict[str, Any]) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    named = document.get("architectures")
    if named:
        name = str(named[0] if isinstance(named, list) else named)
        model = getattr(transformers, name, None)
        if not (isinstance(model, type) and issubclass(model, transformers.PreTrainedModel)):
            raise fail(path, "architectures", name, "transformers has no model class of this name")
        return model
    for head in _HEADS:
        names = getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES", {})
        if config.model_type in names:
            name = names[config.model_type]
            return getattr(transformers, name if isinstance(name, str) else name[0])
    rule = "transformers has no language or image head for this type; name a class in architectures"
    raise fail(path, "model_type", config.model_type, rule)


def _inputs(
    path: Path, config: Any, cls: Any, sequence: int | None, labels: tuple[str, ...]
) -> dict[str, "torch.Tensor"]:
    """One sample of every input that the class needs, and of those of ``labels`` that it takes."""
    import torch

    accepted = inspect.signature(cls.forward).parameters
    whole: dict[str, Any] = {"dtype": torch.long}
    inputs: dict[str, torch.Tensor] = {}
    length = 0
    text = config.get_text_config()
    placeholder = next((key for key in _IMAGE_TOKENS if getattr(config, key, None) is not None), None)
    if placeholder is not None and {"pixel_values", "input_ids"} <= accepted.keys():
        rule = (
            f"places images among its tokens ({placeholder}); give FILE.py:FUNCTION with your own inputs, or a "
            "config.json with only its text_config"
        )
        raise fail(path, "architectures", cls.__name__, rule)
    if "pixel_values" in accepted:
        if sequence is not None and "input_ids" not in accepted:
            raise fail(path, "sequence", sequence, "an image model has no sequence length")
        images = getattr(config, "vision_config", config)
        side = getattr(images, "image_size", 224)
        height, width = side if isinstance(side, list | tuple) else (side, side)
        inputs["pixel_values"] = torch.empty(1, getattr(images, "num_channels", 3), height, width)
    if "input_ids" in accepted:
        length = _length(path, text, sequence)
        inputs["input_ids"] = torch.empty(1, length, **whole)
    if not inputs:
        raise fail(
            path, "architectures", cls.__name__, "must be a language or image model; give FILE.py:FUNCTION otherwise"
        )
    if "labels" in accepted and "labels" in labels:
        per_sample = not length or any(cls.__name__.endswith(ending) for ending in _PER_SAMPLE)
        inputs["labels"] = torch.empty((1,) if per_sample else (1, length), **whole)
    for key in labels:
        if key in accepted and key not in inputs:
            inputs[key] = torch.empty(1, **whole)
    if getattr(config, "is_encoder_decoder", False) and "labels" not in inputs and "decoder_input_ids" in accepted:
        inputs["decoder_input_ids"] = torch.empty(1, length, **whole)
    return inputs


def _length(path: Path, config: Any, sequence: int | None) -> int:
    """Tokens of a sample."""
    stated = (getattr(config, key, None) for key in POSITIONS)
    longest = next((value for value in stated if isinstance(value, int) and value > 0), None)
    if sequence is None and longest is None:
        raise fail(path, "sequence", "", "the config states no maximum sequence length; give one")
    if sequence is not None and (sequence < 1 or (longest is not None and sequence > longest)):
        raise fail(path, "sequence", sequence, f"must be from 1 to {longest or '…'}")
    return sequence or longest or 1

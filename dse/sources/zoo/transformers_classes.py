"""Classes of Hugging Face ``transformers`` without attention, from their configurations, without weights or network."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dse.graph.trace import Trace
from dse.importer.libraries import libraries
from dse.sources.zoo.network import Input, image
from hardware.inputs import fail


@dataclass(frozen=True)
class TransformersClass:
    """A class and what of its configuration is not the default; ``input_name`` is the argument that it takes."""

    name: str
    family: str
    model: str
    config: str
    changed: Mapping[str, Any] = field(default_factory=dict)
    input_name: str = "pixel_values"
    shape: Input = field(default_factory=image)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Its one input."""
        return (self.shape,)

    def trace(self) -> Trace:
        """Its inference forward pass, not canonical yet.

        Raises:
            InputError: PyTorch or transformers is not installed, or the latter is too old for the class.
        """
        torch, transformers = libraries(self.name, "torch", "transformers")
        if not hasattr(transformers, self.model):
            raise fail(self.name, "class", self.model, f"is not in transformers {transformers.__version__}; update it")
        from dse.importer.torch.module import trace_module

        transformers.logging.set_verbosity_error()
        config = getattr(transformers, self.config)(**self.changed)
        with torch.device("meta"):
            module = getattr(transformers, self.model)(config)
            given = torch.empty(self.shape.shape)
        return trace_module(module, {self.input_name: given}, self.name, None, mode="inference")


_CLASSES: Mapping[str, Any] = {"num_labels": 1000}

MODELS = (
    TransformersClass("convnext-tiny", "modern", "ConvNextForImageClassification", "ConvNextConfig", _CLASSES),
    TransformersClass("convnext-v2-tiny", "modern", "ConvNextV2ForImageClassification", "ConvNextV2Config", _CLASSES),
    TransformersClass("regnet-y-4gf", "modern", "RegNetForImageClassification", "RegNetConfig", _CLASSES),
    TransformersClass("bit-50", "modern", "BitForImageClassification", "BitConfig", _CLASSES),
    TransformersClass("poolformer-s12", "modern", "PoolFormerForImageClassification", "PoolFormerConfig", _CLASSES),
    TransformersClass("focalnet-tiny", "modern", "FocalNetForImageClassification", "FocalNetConfig", _CLASSES),
    TransformersClass("hgnet-v2", "modern", "HGNetV2ForImageClassification", "HGNetV2Config", _CLASSES),
    TransformersClass(
        "hifi-gan",
        "temporal",
        "SpeechT5HifiGan",
        "SpeechT5HifiGanConfig",
        input_name="spectrogram",
        shape=Input((1, 64, 80)),
    ),
)

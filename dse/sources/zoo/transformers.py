"""Transformers from hyper-parameters: encoders of growing depth up to BERT-large, and two of about 10,000 operators."""

from dataclasses import dataclass

from dse.graph.trace import Trace
from dse.models.hyperparameters import Hyperparameters
from dse.sources.built_in import ForwardPass, inference_trace
from dse.sources.zoo.styles import OriginalBert, TanhGelu


@dataclass(frozen=True)
class BuiltTransformer:
    """A transformer of the built-in kind, in the ``style`` of its authors' code."""

    hyperparameters: Hyperparameters
    style: type[ForwardPass]
    family: str = "transformer"

    @property
    def name(self) -> str:
        """The hyper-parameters' name."""
        return self.hyperparameters.name

    def trace(self) -> Trace:
        """Its inference forward pass over one sample."""
        return inference_trace(self.hyperparameters, style=self.style)


def _bert(name: str, layers: int, hidden: int) -> BuiltTransformer:
    """BERT (Devlin et al. 2019; the small ones Turc et al. 2019), 384 tokens as for SQuAD, up to the pooled output."""
    return BuiltTransformer(
        Hyperparameters(
            name=name,
            layers=layers,
            hidden=hidden,
            heads=hidden // 64,
            vocabulary=30522,
            sequence=384,
            norm_placement="post",
            embedding_norm=True,
            token_types=2,
            head="pooler",
        ),
        OriginalBert,
    )


_LLAMA_405B = Hyperparameters(
    name="llama3-405b-primitive",
    source="Grattafiori et al. 2024, table 3",
    layers=126,
    hidden=16384,
    heads=128,
    kv_heads=8,
    activation="silu_gated",
    feed_forward=53248,
    vocabulary=128256,
    sequence=2048,
    positions="rotary",
    normalisation="rms_norm",
    biases=False,
    tied_embeddings=False,
)

_GPT_1008B = Hyperparameters(
    name="gpt-1008b-primitive",
    source="Narayanan et al. 2021, table 1, the largest",
    layers=128,
    hidden=25600,
    heads=160,
    vocabulary=51200,
    sequence=2048,
)

_LARGE = _bert("bert-large-primitive", 24, 1024)

BERT_LARGE = _LARGE.hyperparameters
"""Of ``bert-large-primitive``."""

MODELS = (
    _bert("bert-mini-primitive", 4, 256),
    _bert("bert-medium-primitive", 8, 512),
    _bert("bert-base-primitive", 12, 768),
    _LARGE,
    BuiltTransformer(_LLAMA_405B, ForwardPass),
    BuiltTransformer(_GPT_1008B, TanhGelu),
)

"""What class of work a kernel does, by its name.

Names are those of cuBLAS, CUTLASS, nvjet, hipBLASLt, FlashAttention, cuDNN, NCCL, RCCL, PyTorch and Inductor. The first
class whose pattern a name has is the one. The traces that a plan exports have halves of layers, each of which is one
piece of several classes: ``layer``. A kernel with the name of a product need not be of a product of the model: a
convolution with a window of one is carried out by one.
"""

import re
from collections.abc import Sequence

import numpy as np

from dse.importer.profile.profile import COLLECTIVE, COPY, FILL, Integers, Profile

COMMUNICATION, COPIES, FILLS = "communication", "copy", "fill"

_PATTERNS = (
    (
        COMMUNICATION,
        r"nccl(dev)?kernel|^rccl|multimem_all|cross_device_reduce|(one|two)_shot_all_reduce|allreduce_fusion"
        r"|nvshmem|deep_?ep|ep::(dispatch|combine)|^all_?reduce|^all-reduce|^all-gather|^reduce-scatter|^all-to-all",
    ),
    (COPIES, r"__amd_rocclr_copy|^memcpy"),
    (FILLS, r"__amd_rocclr_fill|^memset"),
    ("layer", r"^[FB]\d+ layer "),
    ("attention", r"flash_|flashattn|fmha|attn_fwd|attn_bwd|sdpa|paged_attention|_attention_|attention_kernel|mha_"),
    (
        "convolution",
        r"implicit_?gemm|implicit_convolve|convolve|conv2d|dgrad|wgrad|fprop|winograd|cudnn::cnn|scudnn|miopen.*conv|^conv",
    ),
    ("embedding", r"embedding|fbgemm|index_?select|lookup"),
    ("gemm", r"gemm|gemv|splitkreduce|cutlass::kernel|nvjet|^cijk_|cublas|_tem_fused_.*mm|bmm_|matmul|^[FB]\d+ head$"),
    ("norm", r"batch_?norm|layer_?norm|rms_?norm|group_?norm|bn_(fw|bw)|cudnn::bn|_norm_"),
    ("softmax", r"softmax"),
    ("optimizer", r"multi_tensor_apply|fused_?adam|adamw?_|\blamb_|sgd_|^optimizer$"),
    ("reduction", r"reduce|_red_fused|_per_fused|\bsum_|cub::"),
    (
        "elementwise",
        r"elementwise|_poi_fused|vectorized|catarray|copy_kernel|nchwtonhwc|nhwctonchw|dropout|pointwise|silu|gelu",
    ),
)
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _PATTERNS)

CLASSES = (*(name for name, _ in _PATTERNS), "other")
"""Every class; those of communication, copies and fills are the first three."""


def class_of(name: str) -> int:
    """The place in :data:`CLASSES` of a kernel's class."""
    return next((place for place, (_, pattern) in enumerate(_COMPILED) if pattern.search(name)), len(_COMPILED))


def event_classes(profile: Profile) -> Integers:
    """The place in :data:`CLASSES` of the class of each event."""
    names, places = np.unique(profile.events.name, return_inverse=True)
    of_name = np.array([class_of(profile.text(int(name))) for name in names], dtype=np.int64)
    classes = of_name[places] if len(names) else np.empty(0, np.int64)
    classes[profile.events.kind == COLLECTIVE] = CLASSES.index(COMMUNICATION)
    classes[profile.events.kind == COPY] = CLASSES.index(COPIES)
    classes[profile.events.kind == FILL] = CLASSES.index(FILLS)
    return classes


def is_one_of(classes: Integers, names: Sequence[str]) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """Whether each class is one of ``names``."""
    return np.isin(classes, [CLASSES.index(name) for name in names])

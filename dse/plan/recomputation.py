"""What backward passes recompute: words of plans, and the numbers that stand for them in arrays.

``none``; a set of modules of every layer, as Megatron Core names them (``--recompute-modules``; ``selective``, the core
of attention, is the set of that one); ``op``, all but attention and every second matrix product
(:mod:`dse.plan.alternate`); ``full``, whole layers; ``full/K``, the first of every K layers of a stage.

A module that is recomputed drops tensors that a layer stores, and its backward pass repeats what made them from tensors
that stay (Megatron Core 0.16, ``TransformerConfig.recompute_modules``, and the modules that read it):

- ``core_attn``: what scores, softmax and contexts keep in addition to queries, keys and values, which stay. It repeats
them,
  and the exchange of keys and values over the context axis.
- ``moe_act``: the input of each routed expert's last product. It repeats the activation; the result of the first
  product stays, and shared experts are not part of it.
- ``layernorm``: the results of the norms in front of attention and of the feed-forward network, or the router. It
  repeats both; their input, the residual stream, stays. Tokens that were sent to experts stay, too.
- ``mla_up_proj``: queries, keys and values of latent attention. It repeats the products that make them from the latent
  tensors, which stay, with rotary embeddings, and gathers these tensors over a tensor axis that cuts sequences.
- ``mlp``: all that a plain feed-forward network keeps but its input. It repeats the network, its last product and its
  collectives over the tensor axis included.
- ``moe``: all that the experts of a layer keep, shared ones included, but the router's input. It repeats all of it:
  router, dispatch and combination (both all-to-alls and the copies around them), products, activations.
- ``shared_experts``: the same of shared experts alone.

Where a stack keeps what it has gathered over the tensor axis, what is dropped of that is gathered again. Where 8-bit
operands are kept of a tensor, it is cast once more; the input of a module stays in the precision in which its first
product keeps it. The effects of several modules add up. A tensor is dropped once; what two modules have (``moe`` and
one of ``moe_act`` and ``shared_experts``) is repeated once for each, as Megatron Core does, so that such a set is never
better than ``moe`` alone. A layer has the modules of the set that are in it.

Megatron Core's ``layernorm`` skips norms that Transformer Engine fuses into the product behind them: in front of plain
feed-forward networks, and of attention without latent tensors. Here all norms count.
"""

import re
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dse.plan.model import Transformer

MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")
"""In the order of Megatron Core's documentation."""

CORE_ATTN, MOE_ACT, LAYERNORM, MLA_UP_PROJ, MLP, MOE, SHARED_EXPERTS = (1 << bit for bit in range(len(MODULES)))
"""A set of modules is the sum of their numbers; ``none`` is the empty set."""

SELECTIVE = CORE_ATTN
ALTERNATE = 1 << len(MODULES)
FULL = ALTERNATE + 1

_SEPARATOR = "+"
_WHOLE = re.compile(r"none|op|full|full/([2-9]|[1-9][0-9]{1,2})")
ALL_SETS = "modules"
"""Of what is tried: sets of a model's modules, the empty one and ``selective`` among them."""

RECOMPUTE_RULE = (
    "must be none, selective, op, full, full/K (every K-th layer, K from 2 to 999), or modules joined by +, each "
    "once: {', '.join(MODULES)}"
)


def recompute_word(value: Any) -> str | None:
    """The usual word for what is recomputed, given by a word or a list of modules; None if it is invalid.

    Modules are in their order, and the core of attention alone is ``selective``.
    """
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        value = _SEPARATOR.join(value)
    return _word(value) if isinstance(value, str) else None


@lru_cache(maxsize=1024)
def _word(value: str) -> str | None:
    """The usual word for ``value``. Results have it in thousands of plans, which are few words."""
    if _WHOLE.fullmatch(value):
        return value
    names = [MODULES[0] if name == "selective" else name for name in value.split(_SEPARATOR)]
    if len({*names}) < len(names) or not {*names} <= {*MODULES}:
        return None
    return set_word(sum(1 << MODULES.index(name) for name in names))


def set_word(modules: int) -> str:
    """The word for a set of modules, given by its number."""
    names = [name for bit, name in enumerate(MODULES) if modules >> bit & 1]
    return {0: "none", SELECTIVE: "selective"}.get(modules, _SEPARATOR.join(names))


def modules_of(word: str) -> tuple[str, ...]:
    """The modules of a word, in their order; none for words that are not a set of them."""
    code = recompute_code(word)
    return tuple(name for bit, name in enumerate(MODULES) if code < ALTERNATE and code >> bit & 1)


def recompute_code(word: str) -> int:
    """What stands for a word: a set of modules, ``ALTERNATE``, or ``FULL`` + k − 1 for ``full/k``."""
    mode, _, every = word.partition("/")
    if mode in ("op", "full"):
        return {"op": ALTERNATE, "full": FULL}[mode] + int(every or 1) - 1
    if word == "none":
        return 0
    names = (MODULES[0] if name == "selective" else name for name in word.split(_SEPARATOR))
    return sum(1 << MODULES.index(name) for name in names)


def word_of_code(code: int) -> str:
    """The word that a number stands for."""
    if code < ALTERNATE:
        return set_word(code)
    every = code - FULL + 1
    return "op" if every == 0 else "full" if every == 1 else f"full/{every}"


def module_sets(model: "Transformer", fused_attention: bool) -> tuple[int, ...]:
    """The sets of a model's modules that are tried, from the empty one on.

    Each choice of what is around attention with each of the feed-forward networks. The former are nothing, the core of
    attention where it is not fused, and then, with that core, ``layernorm``, ``mla_up_proj`` and both; the latter
    nothing, ``moe_act``, plain and shared networks too, and all of them (``moe`` and ``mlp``). There is little to drop
    of fused attention: of its core ``selective`` alone is tried.
    """
    whole = sum(1 << MODULES.index(name) for name in modules_in(model))
    core = 0 if fused_attention else CORE_ATTN
    around = (0, *(core | norms | latent for norms, latent in product((0, LAYERNORM), (0, MLA_UP_PROJ))))
    networks = (0, MOE_ACT, MOE_ACT | SHARED_EXPERTS | MLP, MOE | MLP)
    return tuple(sorted({SELECTIVE, *((one | other) & whole for one, other in product(around, networks))}))


def nearest_modules(word: str, model: "Transformer") -> str:
    """The nearest set that a model has: the modules of a word that are in it, or else what it has in their place.

    ``none`` where it has nothing in their place.
    """
    has, names = modules_in(model), modules_of(word)
    stands_for = {"moe": "mlp", "moe_act": "mlp", "shared_experts": "moe" if "moe" in has else "mlp", "mlp": "moe"}
    supported = [name for name in names if name in has]
    instead = [stands_for[name] for name in names if stands_for.get(name) in has]
    return recompute_word(supported or instead[:1]) or "none"


def modules_in(model: "Transformer") -> tuple[str, ...]:
    """The modules that some layer of a model has.

    Of attention and networks side by side, which share a norm and a sum, the core of attention alone.
    """
    attends = any(kind.attends for kind in model.kinds)
    if model.parallel_norms:
        return MODULES[:1]
    experts = model.experts if model.has_expert_layers else None
    has = {
        "core_attn": attends,
        "moe_act": experts is not None,
        "layernorm": True,
        "mla_up_proj": model.latent is not None and attends,
        "mlp": model.dense_layers > 0,
        "moe": experts is not None,
        "shared_experts": experts is not None and experts.shared > 0,
    }
    return tuple(name for name in MODULES if has[name])

"""A ``config.json`` of a family that no reader knows, by its keys alone, if each of these is of a layer that is known.

What no key says is taken as most families since Llama have it: norms by RMS in front of attention and network, rotary
embeddings, gated networks, no biases.
"""

import re
from typing import Any

from dse.plan.config_families import latent, layer_types, some_dense, window, with_experts
from dse.plan.config_values import Config

_NAMES = {
    "hidden_size": ("n_embd", "d_model", "n_embed", "dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("n_kv_heads", "num_kv_heads", "num_query_groups", "num_attention_groups"),
    "intermediate_size": ("ffn_hidden_size", "n_inner", "dense_intermediate_size"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "model_max_length", "max_sequence_length", "seq_length"),
    "head_dim": ("kv_channels", "attention_head_dim"),
    "tie_word_embeddings": ("tie_embedding",),
    "n_routed_experts": ("num_experts", "num_local_experts", "moe_num_experts"),
    "num_experts_per_tok": ("moe_topk", "moe_top_k", "moe_k", "top_k", "num_experts_per_token", "top_k_experts"),
    "moe_intermediate_size": ("expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_intermediate_size"),
    "n_shared_experts": ("num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "first_k_dense_replace": ("num_dense_layers", "moe_layer_start_index"),
    "num_nextn_predict_layers": ("num_mtp_layers", "mtp_num_hidden_layers"),
    "n_group": ("num_expert_group",),
    "shared_expert_intermediate_size": ("moe_shared_expert_intermediate_size",),
    "qkv_bias": ("use_qkv_bias", "add_qkv_bias", "use_attention_qkv_bias"),
    "query_key_norm": ("use_qk_norm", "qk_norm", "qk_layernorm"),
    "attention_bias": ("use_bias", "bias"),
}
"""A key by its most frequent name, and others for it."""

_READ = (
    "vocab_size", "mlp_bias", "layer_types", "mlp_layer_types", "sliding_window", "moe_layer_freq", "topk_group",
    "q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim",
    "v_head_dim",
)  # fmt: skip

_WITHOUT_COST = re.compile(
    r"architectures|auto_map|model_type|(torch_)?dtype|transformers_version|.*_token_id|.*_token_index|.*initializer.*"
    r"|.*_dropout|dropout|.*_p?drop|.*_(eps|epsilon)|.*init_(std|scale|method).*|init_.*|rope_.*|rotary_.*|partial_rotary.*"
    r"|original_max_position_embeddings|max_window_layers|use_sliding_window|use_cache|.*pretraining_tp|ep_size|hidden_act"
    r"|hidden_activation|activation_function|output_.*|return_dict.*|is_decoder|id2label|label2id|name"
    r"|_name_or_path|problem_type|quantization_config|.*softcapping|.*softcap|.*(multiplier|multiplier_scale|scaling_factor|_scaling)|max_attn_value"
    r"|scale_emb|scale_depth|dim_model_base|mup_.*|attn_implementation|_attn_implementation.*|attention_backend"
    r"|router_.*|.*aux_loss.*|seq_aux|scoring_func|score_function|norm_topk_prob|norm_head|topk_method|moe_router.*"
    r"|.*clip.*|swiglu_limit.*|use_flash.*|flash_attn.*|tokenizer_class|language|.*_loss_.*|head_dtype|unpadded_vocab_size"
    r"|query_pre_attn_scalar|chunk_size_feed_forward|cross_attention_hidden_size|prefix|task_specific_params|tie_encoder.*"
    r"|pruned_heads|finetuning_task|use_rmsnorm|use_rms_norm|qk_head_dim|base_config_key|.*_grad_.*|.*checkpointing.*"
)
"""Keys that say nothing of a step's cost here."""


def unknown_keys(document: dict[str, Any]) -> list[str]:
    """Keys of a file that no layer here has, and that may cost something; false and null ones are as if left out."""
    known = {*_NAMES, *_READ, *(name for names in _NAMES.values() for name in names)}
    given = [key for key, value in document.items() if value not in (None, False, 0, [], {})]
    return sorted(key for key in given if key not in known and not _WITHOUT_COST.fullmatch(key))


def is_masked(document: dict[str, Any]) -> bool:
    """Whether the file is of a model whose tokens see those after them."""
    heads = document.get("architectures")
    return isinstance(heads, list) and bool(heads) and all(str(head).endswith("MaskedLM") for head in heads)


def by_frequent_names(document: dict[str, Any]) -> dict[str, Any]:
    """The file with keys by their most frequent names."""
    return {key: document[name] for key, names in _NAMES.items() for name in names if name in document} | document


def family_by_keys(sizes: Config) -> dict[str, Any]:
    """Fields of a :class:`~dse.plan.model.Transformer`."""
    layers = sizes["num_hidden_layers"]
    biases = sizes.get("attention_bias", False)
    fields: dict[str, Any] = {
        "attention_biases": biases,
        "feed_forward_biases": sizes.get("mlp_bias", False),
        "query_key_value_biases": sizes.get("qkv_bias", False),
        "query_key_norm": sizes.get("query_key_norm", False),
        "gated": "relu2" not in (sizes.text("hidden_act") or ""),
    }
    if "kv_lora_rank" in sizes:
        fields |= latent(sizes)
    if sizes.get("n_routed_experts", 0) > 1:
        fields |= _experts(sizes)
    kinds = layer_types(sizes, ("full_attention", "sliding_attention"))
    near = [kind == "sliding_attention" for kind in kinds] or [sizes.get("use_sliding_window", not kinds)] * layers
    return fields | window(sizes, sizes.get("sliding_window", 0), near)


def _experts(sizes: Config) -> dict[str, Any]:
    """Of a width of their own, or where the file has none of that of networks, which no layer has then."""
    if "moe_intermediate_size" in sizes:
        fields = some_dense(sizes)
        if (together := sizes.get("shared_expert_intermediate_size", 0)) and "n_shared_experts" not in sizes:
            fields["experts"] |= {"shared": max(1, together // sizes["moe_intermediate_size"])}
        return fields
    active = {"routed": sizes["n_routed_experts"], "active": sizes["num_experts_per_tok"]}
    shared = {"shared": sizes.get("n_shared_experts", 0)}
    experts = active | shared | {"width": sizes["intermediate_size"]}
    return with_experts(experts, [True] * sizes["num_hidden_layers"]) | {"feed_forward": 0}

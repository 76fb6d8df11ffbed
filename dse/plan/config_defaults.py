"""What families of transformers have that their ``config.json`` does not say, and other names of keys."""

from typing import Any

NORMS = dict.fromkeys(("gemma2", "gemma3_text", "glm4"), "both") | dict.fromkeys(
    ("olmo2", "olmo3", "exaone4"), "behind"
)
"""Where the norms of a layer are, of families that have them not in front alone."""

ALWAYS: dict[str, dict[str, Any]] = {
    "gemma2": {"post_norms": 2},
    "gemma3_text": {"post_norms": 2, "query_key_norm": True},
    "glm4": {"post_norms": 2},
    "olmo2": {"query_key_norm": True},
    "olmo3": {"query_key_norm": True},
    "olmoe": {"query_key_norm": True},
    "exaone4": {"query_key_norm": True},
    "minimax_m2": {"query_key_norm": True},
    "starcoder2": {"normalisation": "layer_norm", "gated": False},
    "nemotron": {"normalisation": "layer_norm", "gated": False},
    "arcee": {"gated": False},
    "apertus": {"gated": False},
    "cohere": {"normalisation": "layer_norm"},
    "cohere2": {"normalisation": "layer_norm"},
    "falcon": {"normalisation": "layer_norm", "gated": False},
    "gpt_neox": {"normalisation": "layer_norm", "gated": False},
    "gptj": {"normalisation": "layer_norm", "gated": False},
    "phi": {"normalisation": "layer_norm", "gated": False},
    "phimoe": {"normalisation": "layer_norm"},
    "stablelm": {"normalisation": "layer_norm"},
}
"""What every model of a family has, and no key says."""

OTHER_KEYS: dict[str, dict[str, str]] = {
    "gptj": {
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
        "n_positions": "max_position_embeddings",
    },
    "falcon": {"n_embed": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"},
    "kimi_linear": {
        "num_experts": "n_routed_experts",
        "num_experts_per_token": "num_experts_per_tok",
        "num_shared_experts": "n_shared_experts",
    },
}
"""Keys of a family that have another name in most, and that name."""

_QWEN_GATED_DELTA = {
    "head_dim": 256,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}

USUAL: dict[str, dict[str, Any]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3_moe": {"num_key_value_heads": 4, "sliding_window": 4096},
    "glm4_moe": {"num_key_value_heads": 8, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "attention_bias": True},
    "gemma": {"num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096},
    "gemma3_text": {
        "num_key_value_heads": 4,
        "head_dim": 256,
        "tie_word_embeddings": True,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
    "smollm3": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "starcoder2": {"num_key_value_heads": 2, "tie_word_embeddings": True, "use_bias": True},
    "exaone4": {"num_key_value_heads": 32, "sliding_window": 4096, "sliding_window_pattern": 4},
    "seed_oss": {"num_key_value_heads": 8, "head_dim": 128, "attention_bias": True},
    "ernie4_5": {"num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": True},
    "ernie4_5_moe": {
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
    },
    "glm": {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True},
    "glm4": {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True},
    "granitemoe": {"num_local_experts": 8},
    "ministral3": {"num_key_value_heads": 8, "head_dim": 128},
    "olmo3": {"sliding_window": 4096},
    "qwen2_moe": {"num_key_value_heads": 16, "sliding_window": 4096, "max_window_layers": 28},
    "dots1": {"num_key_value_heads": 32, "first_k_dense_replace": 0, "n_shared_experts": 0},
    "deepseek_v2": {"n_shared_experts": 2, "q_lora_rank": 1536},
    "deepseek_v3": {"n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536},
    "deepseek_v32": {
        "n_shared_experts": 1,
        "first_k_dense_replace": 3,
        "q_lora_rank": 1536,
        "n_group": 8,
        "topk_group": 4,
        "index_n_heads": 64,
        "index_head_dim": 128,
    },
    "glm_moe_dsa": {
        "n_shared_experts": 1,
        "first_k_dense_replace": 3,
        "q_lora_rank": 2048,
        "index_n_heads": 32,
        "index_head_dim": 128,
        "index_topk": 2048,
    },
    "bamba": {
        "num_key_value_heads": 8,
        "mamba_n_heads": 128,
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_chunk_size": 256,
    },
    "falcon_h1": {
        "num_key_value_heads": 8,
        "mamba_n_heads": 128,
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_chunk_size": 256,
    },
    "granitemoehybrid": {
        "mamba_n_heads": 128,
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_chunk_size": 256,
        "shared_intermediate_size": 1024,
    },
    "nemotron_h": {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
        "conv_kernel": 4,
        "chunk_size": 128,
    },
    "mamba2": {"num_heads": 128, "head_dim": 64, "n_groups": 8, "state_size": 128, "conv_kernel": 4, "chunk_size": 256},
    "mamba": {"tie_word_embeddings": True},
    "falcon_mamba": {"tie_word_embeddings": True},
    "jamba": {"num_key_value_heads": 8, "num_experts_per_tok": 2},
    "lfm2": {"num_key_value_heads": 8},
    "lfm2_moe": {"num_key_value_heads": 8},
    "minimax": {"num_key_value_heads": 8},
    "kimi_linear": {"n_shared_experts": 1, "first_k_dense_replace": 1},
    "qwen3_next": {
        "num_key_value_heads": 2,
        **_QWEN_GATED_DELTA,
        "shared_expert_intermediate_size": 512,
    },
    "qwen3_5_text": {
        "num_key_value_heads": 4,
        **_QWEN_GATED_DELTA,
    },
    "qwen3_5_moe_text": {
        "num_key_value_heads": 2,
        **_QWEN_GATED_DELTA,
        "shared_expert_intermediate_size": 512,
    },
    "cohere": {"tie_word_embeddings": True},
    "cohere2": {"tie_word_embeddings": True},
    "llama4_text": {"num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192},
    "glm4_moe_lite": {"n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 768},
    "exaone_moe": {"num_key_value_heads": 32, "sliding_window": 4096},
    "solar_open": {"num_key_value_heads": 8, "head_dim": 128, "n_shared_experts": 1},
    "helium": {"num_key_value_heads": 20, "head_dim": 128},
    "internlm3": {"num_key_value_heads": 2, "head_dim": 128},
    "phimoe": {"num_key_value_heads": 8},
    "kimi_k2": {"n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536},
}
"""What transformers takes where a file leaves a key out; null is another thing: no window, a head of keys each."""

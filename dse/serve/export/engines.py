"""Workers in the words of each engine.

Engines count in different ways. The ranks of attention-data parallelism are engines of their own in vLLM (GPUs =
tensor · pipeline · data), a part of tensor in SGLang, and all of tensor in TensorRT-LLM. Limits on requests and tokens
are of a rank in vLLM and TensorRT-LLM; SGLang divides them by its ranks.
"""

import json
from collections.abc import Iterable
from typing import Any

from dse.serve.deployment import Deployment, Worker
from dse.serve.export.expressible import refuse

Settings = dict[str, Any]

PORTS = {"serve": 8000, "prefill": 8001, "decode": 8002}
BOOTSTRAP_PORT = 8998
BLOCK = 32
"""Tokens of a block of TensorRT-LLM's cache, its default."""

_GRAPHS_OF_VLLM = 512
"""Requests up to which vLLM captures graphs by default."""


def arguments(deployment: Deployment, role: str, worker: Worker) -> list[str]:
    """Flags of one worker, without the model and what depends on its node.

    Raises:
        NotExpressibleError: the engine lacks the shape.
    """
    of_engine = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}
    return _words(of_engine[deployment.engine](deployment, role, worker))


def nodes_of(deployment: Deployment, worker: Worker) -> tuple[list[str], list[str]]:
    """Flags of a worker on several nodes: of all of them, and of those but the first."""
    nodes, shape = deployment.nodes(worker), worker.shape
    if nodes == 1 or deployment.engine == "trtllm":
        return [], []
    if deployment.engine == "sglang":
        return _words({"--nnodes": nodes, "--node-rank": "$NODE_RANK", "--dist-init-addr": "$HEAD:5000"}), []
    if shape.attention_data == 1:
        flags = {"--nnodes": nodes, "--node-rank": "$NODE_RANK", "--master-addr": "$HEAD"}
        return _words(flags), ["--headless"]
    local = shape.attention_data // nodes
    refuse(
        "vLLM",
        (shape.attention_data % nodes > 0 or shape.tensor * shape.pipeline > deployment.node_chips,
         f"ranks must not span nodes of {deployment.node_chips} GPUs"),
    )  # fmt: skip
    flags = {"--data-parallel-size-local": local, "--data-parallel-address": "$HEAD", "--data-parallel-rpc-port": 13345}
    return _words(flags), ["--headless", "--data-parallel-start-rank", f"$((NODE_RANK * {local}))"]


def settings_of_trtllm(deployment: Deployment, role: str, worker: Worker) -> Settings:
    """The file of a worker of TensorRT-LLM.

    Raises:
        NotExpressibleError: attention is both cut and copied.
    """
    shape, requests = worker.shape, worker.requests
    refuse(
        "TensorRT-LLM",
        (min(shape.tensor, shape.attention_data) > 1,
         f"attention must be cut over all GPUs of a stage or none, but tensor is {shape.tensor} and attention_data "
         f"{shape.attention_data}"),
    )  # fmt: skip
    drafts = 1 + deployment.draft_tokens
    tokens = requests * drafts if role == "decode" else max(worker.step_tokens, requests * drafts)
    settings: Settings = {
        "tensor_parallel_size": shape.tensor * shape.attention_data,
        "pipeline_parallel_size": shape.pipeline,
    }
    if deployment.has_experts:
        settings |= {
            "moe_tensor_parallel_size": shape.expert_tensor,
            "moe_expert_parallel_size": shape.expert,
        }
    settings |= {
        "enable_attention_dp": shape.attention_data > 1,
        "max_batch_size": requests,
        "max_num_tokens": _in_blocks(tokens),
        "max_seq_len": deployment.longest,
        "kv_cache_config": {
            "free_gpu_memory_fraction": deployment.memory_share,
            "dtype": "fp8" if deployment.cache_bytes == 1 else "auto",
            "enable_block_reuse": deployment.reuses_prefixes,
            "tokens_per_block": BLOCK,
        },
    }
    if role != "decode" and worker.step_tokens < deployment.prompt:
        settings["enable_chunked_prefill"] = True
    if role == "prefill":
        settings["disable_overlap_scheduler"] = True
    else:
        settings["cuda_graph_config"] = {"enable_padding": True, "max_batch_size": requests}
    if role != "serve":
        tokens = _in_blocks(deployment.longest)
        settings["cache_transceiver_config"] = {"backend": "DEFAULT", "max_tokens_in_buffer": tokens}
    if deployment.draft_tokens and role != "prefill":
        kind = {"decoding_type": "Draft_Target"} if deployment.draft_model else {"decoding_type": "MTP"}
        own = {"speculative_model": deployment.draft_model} if deployment.draft_model else {}
        settings["speculative_config"] = {**kind, "max_draft_len": deployment.draft_tokens, **own}
    return settings


def _vllm(deployment: Deployment, role: str, worker: Worker) -> Settings:
    shape, chips = worker.shape, worker.shape.tensor * worker.shape.attention_data
    spread = deployment.has_experts and shape.expert > 1
    refuse(
        "vLLM",
        (spread and shape.expert != chips,
         f"expert must be 1 or tensor · attention_data ({chips}), but is {shape.expert}"),
        (not deployment.has_experts and shape.attention_data > 1, "attention_data must be 1 without experts"),
    )  # fmt: skip
    flags: Settings = {
        "--tensor-parallel-size": shape.tensor,
        "--pipeline-parallel-size": shape.pipeline,
        "--data-parallel-size": shape.attention_data,
        **({"--enable-expert-parallel": None} if spread else {}),
        "--max-num-batched-tokens": worker.step_tokens,
        "--max-num-seqs": worker.requests,
        "--max-model-len": deployment.longest,
        "--gpu-memory-utilization": deployment.memory_share,
        "--kv-cache-dtype": "fp8" if deployment.cache_bytes == 1 else "auto",
        **({} if deployment.reuses_prefixes else {"--no-enable-prefix-caching": None}),
    }
    if worker.requests > _GRAPHS_OF_VLLM and role != "prefill":
        flags["--max-cudagraph-capture-size"] = worker.requests
    if deployment.draft_tokens:
        drafts: Settings = {"method": "mtp", "num_speculative_tokens": deployment.draft_tokens}
        if deployment.draft_model:
            drafts |= {"method": "draft_model", "model": deployment.draft_model}
        flags["--speculative-config"] = json.dumps(drafts, separators=(",", ":"))
    if role != "serve":
        transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        flags["--kv-transfer-config"] = json.dumps(transfer, separators=(",", ":"))
    return flags


def _sglang(deployment: Deployment, role: str, worker: Worker) -> Settings:
    shape, ranks = worker.shape, worker.shape.attention_data
    flags: Settings = {
        "--tensor-parallel-size": shape.tensor * ranks,
        "--pipeline-parallel-size": shape.pipeline,
        **({"--data-parallel-size": ranks, "--enable-dp-attention": None} if ranks > 1 else {}),
        **({"--expert-parallel-size": shape.expert} if deployment.has_experts else {}),
        "--chunked-prefill-size": worker.step_tokens * ranks,
        "--max-running-requests": worker.requests * ranks,
        "--context-length": deployment.longest,
        "--mem-fraction-static": deployment.memory_share,
        "--kv-cache-dtype": "fp8_e4m3" if deployment.cache_bytes == 1 else "auto",
        **({} if deployment.reuses_prefixes else {"--disable-radix-cache": None}),
        "--cuda-graph-max-bs": worker.requests,
        "--host": "0.0.0.0",
    }
    if deployment.draft_tokens:
        flags |= {
            "--speculative-algorithm": "STANDALONE" if deployment.draft_model else "EAGLE",
            **({"--speculative-draft-model-path": deployment.draft_model} if deployment.draft_model else {}),
            "--speculative-num-steps": deployment.draft_tokens,
            "--speculative-eagle-topk": 1,
            "--speculative-num-draft-tokens": 1 + deployment.draft_tokens,
        }
    if role != "serve":
        flags |= {
            "--disaggregation-mode": role,
            "--disaggregation-transfer-backend": "nixl",
            "--disaggregation-bootstrap-port": BOOTSTRAP_PORT,
        }
    return flags


def _trtllm(deployment: Deployment, role: str, worker: Worker) -> Settings:
    del deployment, worker
    return {"--extra_llm_api_options": settings_file(role)}


def settings_file(role: str) -> str:
    """The name of the file of a worker of TensorRT-LLM."""
    return f"trtllm-{role}.yaml"


def _in_blocks(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK


def _words(flags: Settings) -> list[str]:
    def pairs() -> Iterable[str]:
        for name, value in flags.items():
            yield name
            if value is not None:
                yield str(value)

    return [*pairs()]

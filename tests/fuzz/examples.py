"""One small valid example of each input format."""

import json
from pathlib import Path

LAYER = {
    "forward_s": 1e-3,
    "backward_s": 2e-3,
    "weight_bytes": 1e7,
    "activation_bytes": 1e7,
    "sliced": False,
}
PLACEMENT = {
    "schema": "dse.placement/1",
    "name": "branched",
    "accelerators": 6,
    "microbatches": 4,
    "hbm_bytes": 1e9,
    "network_bytes_per_s": 1e9,
    "recompute": True,
    "state_factor": 2,
    "gradient_sync_factor": 2,
    "tensor_parallel": {
        "1": {
            "layers": [{"name": name, **LAYER} for name in ("first", "left", "right", "last")],
            "edges": [["first", "left", 1e5], ["first", "right"], ["left", "last", 1e5], ["right", "last", 1e5]],
        }
    },
}
SCHEDULE = {
    "schema": "dse.schedule/1",
    "tensor_cores": 2,
    "vector_cores": 4,
    "operators": [
        {"name": "scores", "kind": "tensor", "single_s": 2e-4, "all_cores_s": 6e-5},
        {"name": "softmax", "kind": "vector", "single_s": 1e-4, "all_cores_s": 3e-5},
        {"name": "values", "kind": "fused", "single_s": 1e-4, "all_cores_s": 7e-5},
    ],
    "edges": [["scores", "softmax"], ["softmax", "values"]],
}
GRAPH = {
    "schema": "dse.graph/1",
    "name": "small",
    "nodes": [
        {"name": "input", "flops": 0, "bytes": 2e5, "latency_s": 1e-6, "output_bytes": 1505},
        {"name": "conv", "flops": 2.4e8, "bytes": 1.7e6, "latency_s": 3e-6, "output_bytes": 802, "weight_bytes": 9408},
        {"name": "add", "flops": 1e6, "bytes": 1e6, "latency_s": 2e-6, "output_bytes": 802},
    ],
    "edges": [["input", "conv"], ["conv", "add", 12], ["input", "add"]],
}
KGRAPH = """(*
test=small
width=60
height=50
wdeltat=1
wlength=4
wadapter=2
memlimit=24576
*)

(* Node Definitions *)
input[0] n=[ 14 14 64 ] name='k0'
conv[1] W=14 H=14 R=3 S=3 C=64 K=64 T=1 U=1 name='k1'
dblock[2] f=64 h=14 w=14 name='k2'
output[3] n=[ 14 14 256 ] name='k3'

(* Connectivity *)
input[0]:_ -> conv[1]:x, shape:[14][14][64]
conv[1]:y -> dblock[2]:x, shape:[14][14][64]
dblock[2]:y -> output[3]:_, shape:[14][14][256]
"""
KERNELS = {
    "schema": "dse.kernels/1",
    "source": "an example",
    "kernels": {
        "dblock": {
            "parameters": ["f", "h", "w"],
            "written": ["h", "w", "f"],
            "convolutions": [
                {"H": "h", "W": "w", "R": 1, "S": 1, "C": "f", "K": "f / 4"},
                {"H": "h", "W": "w", "R": 3, "S": 3, "C": "f / 4", "K": "(f * 2) - f", "T": 1, "U": 1},
            ],
        }
    },
}
MODEL = {
    "schema": "dse.model/1",
    "name": "tiny",
    "source": "an example",
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "feed_forward": 128,
    "vocabulary": 256,
    "sequence": 32,
    "positions": "rotary",
    "normalisation": "rms_norm",
    "activation": "silu_gated",
    "biases": False,
    "tensor_parallel": [1, 2],
}
NETWORK = {
    "name": "fabric",
    "links": {"value": 4, "source": "board"},
    "link_bytes_per_s": {"value": 1e11, "source": "board"},
    "efficiency": {"value": 0.9, "source": "board"},
    "latency_s": {"value": 1e-6, "source": "board"},
    "launch_s": {"value": 0.0, "source": "board"},
    "channels": {"value": 1, "source": "board"},
    "additions_included": {"value": False, "source": "board"},
}
CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 32,
    "n_head": 2,
    "n_layer": 1,
    "n_positions": 16,
    "vocab_size": 64,
}
HLO_JSON = json.loads((Path(__file__).parents[1] / "data" / "hlo" / "mlp.json").read_text())


STABLEHLO = """module @mlp {
  func.func public @main(%arg0: tensor<16x32xf32> loc("params['w1']"), %arg1: tensor<32x8xf32> loc("params['w2']"), \
%arg2: tensor<64x16xf32> loc("batch['x']"), %arg3: tensor<64x8xf32> loc("batch['y']")) \
-> (tensor<16x32xf32>, tensor<32x8xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0] : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.tanh %0 : tensor<64x32xf32>
    %2 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
    %3 = stablehlo.subtract %2, %arg3 : tensor<64x8xf32>
    %4 = stablehlo.dot_general %1, %3, contracting_dims = [0] x [0] : (tensor<64x32xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
    %5 = stablehlo.dot_general %3, %arg1, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<32x8xf32>) -> tensor<64x32xf32>
    %6 = stablehlo.dot_general %arg2, %5, contracting_dims = [0] x [0] : (tensor<64x16xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %7 = stablehlo.subtract %arg0, %6 : tensor<16x32xf32>
    %8 = stablehlo.subtract %arg1, %4 : tensor<32x8xf32>
    %9 = call @loss(%3) : (tensor<64x8xf32>) -> tensor<f32>
    return %7, %8, %9 : tensor<16x32xf32>, tensor<32x8xf32>, tensor<f32>
  }
  func.func private @loss(%arg0: tensor<64x8xf32>) -> tensor<f32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<64x8xf32>
    %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x8xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
"""  # noqa: E501 (lines as they are printed)


LOOP = """HloModule loop
condition {
  state = (s32[], f32[4,8], f32[8,8]) parameter(0)
  n = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(n, limit), direction=LT
}
inner_condition {
  state = (s32[], f32[4,8]) parameter(0)
  n = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(n, limit), direction=LT
}
inner {
  state = (s32[], f32[4,8]) parameter(0)
  n = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[4,8] get-tuple-element(state), index=1
  y = f32[4,8] tanh(x)
  ROOT t = (s32[], f32[4,8]) tuple(m, y)
}
body {
  state = (s32[], f32[4,8], f32[8,8]) parameter(0)
  n = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[4,8] get-tuple-element(state), index=1
  w = f32[8,8] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  start = (s32[], f32[4,8]) tuple(zero, x)
  again = (s32[], f32[4,8]) while(start), condition=inner_condition, body=inner
  z = f32[4,8] get-tuple-element(again), index=1
  p = f32[4,8] dot(z, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[4,8], f32[8,8]) tuple(m, p, w)
}
ENTRY main {
  w = f32[8,8] parameter(0), metadata={op_name="params"}
  x = f32[4,8] parameter(1), metadata={op_name="batch"}
  a = f32[4,8] negate(x)
  zero = s32[] constant(0)
  start = (s32[], f32[4,8], f32[8,8]) tuple(zero, a, w)
  looped = (s32[], f32[4,8], f32[8,8]) while(start), condition=condition, body=body
  out = f32[4,8] get-tuple-element(looped), index=1
  second = (s32[], f32[4,8]) tuple(zero, out)
  last = (s32[], f32[4,8]) while(second), condition=inner_condition, body=inner
  z = f32[4,8] get-tuple-element(last), index=1
  ROOT r = f32[4,8] abs(z)
}
"""


TRANSFORMER = {
    "schema": "dse.transformer/1", "name": "mine", "layers": 4, "hidden": 512, "heads": 8, "kv_heads": 4,
    "head_width": 96, "value_width": 64, "feed_forward": 1024, "vocabulary": 32000, "sequence": 512,
    "latent": {"query_rank": 128, "key_value_rank": 64, "rotary_width": 32},
    "experts": {"routed": 8, "active": 2, "width": 256, "shared": 1, "dense_layers": 1},
    "window": {"tokens": 128, "share": 0.5},
}  # fmt: skip
CONFIG = {
    "model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 4, "intermediate_size": 1024, "vocab_size": 32000, "num_local_experts": 4,
    "num_experts_per_tok": 2, "max_position_embeddings": 1024,
}  # fmt: skip
PLAN = {
    "schema": "dse.plan/1", "tensor": 2, "sequence_parallel": "yes", "context": 1, "expert": 1, "data": 2,
    "pipeline": 2, "interleave": 2, "schedule": "1f1b", "zero": 1, "microbatch": 2, "recompute": "full",
    "precision": "bf16",
}  # fmt: skip


def onnx_model():
    """A convolution, a reshape and a softmax as bytes; needs the package onnx."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    kernel = numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "kernel")
    shape = numpy_helper.from_array(np.array([1, -1], np.int64), "shape")
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["h"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Reshape", ["h", "shape"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=-1),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])]
    graph = helper.make_graph(nodes, "picture", inputs, outputs, [kernel, shape])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

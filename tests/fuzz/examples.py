"""One small valid example of each input format."""

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

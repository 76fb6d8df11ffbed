"""Small profiles of our own, in the form in which the PyTorch profiler writes them."""

import gzip
import json

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
ATTENTION = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
KERNELS = {"compute": ELEMENTWISE, "communicate": ALL_REDUCE, "copy": "Memcpy DtoD (Device -> Device)"}

EXECUTION = {
    "schema": "1.1.0-chakra.0.0.4", "pid": 1,
    "nodes": [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]",
         "inputs": {"values": [], "shapes": [], "types": []}},
        {"id": 2, "name": "aten::mm", "ctrl_deps": 1,
         "inputs": {"values": [], "shapes": [[32, 64], [64, 16]], "types": ["Tensor(float)", "Tensor(float)"]}},
        {"id": 3, "name": "aten::add", "ctrl_deps": 1,
         "inputs": {"values": [], "shapes": [[32], []], "types": ["Tensor(float)", "Int"]}},
        {"id": 4, "name": "nccl:all_reduce", "ctrl_deps": 1,
         "inputs": {"values": [], "shapes": [[[100], [20]]], "types": ["GenericList[Tensor(c10::BFloat16)]"]}},
    ],
}  # fmt: skip
"""An execution trace of PyTorch: operators without times."""


def event(category, name, start, length, *, process=1, thread=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": length,
            "args": args}  # fmt: skip


def kernel(name, start, length, *, correlation=0, stream=7, device=0):
    category = "gpu_memcpy" if name.startswith("Memcpy") else "gpu_memset" if name.startswith("Memset") else "kernel"
    return event(category, name, start, length, process=device, thread=stream, device=device, stream=stream,
                 correlation=correlation)  # fmt: skip


def document(events, rank=None, ranks=None, **header):
    distributed = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks}}
    return {"schemaVersion": 1, **distributed, **header, "traceEvents": events}


def write(path, content):
    text = json.dumps(content)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def training_step(rank=0, ranks=2, arrives=0.0, layers=2, clock=0.0):
    """Two steps of a small model: per layer a product, attention and an addition, then an all-reduce of the gradient.

    Args:
        rank, ranks: of the process.
        arrives: how much later the rank arrives at its collectives than at best [µs].
        layers: of the model.
        clock: what the clock of the rank shows at 0 [µs].
    """
    events, correlation, start = [], 0, clock

    def launched(operator, name, at, length, launch, **args):
        nonlocal correlation
        correlation += 1
        events.append(event("cpu_op", operator, launch, 8.0, **args))
        events.append(event("cuda_runtime", "cudaLaunchKernel", launch + 2.0, 3.0, correlation=correlation))
        events.append(kernel(name, at, length, correlation=correlation, stream=20 if "nccl" in name else 7))

    for step in range(2):
        begin, at, launch = start, start + 30.0, start + 5.0
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, 400.0))
        for layer in range(layers):
            events.append(event("python_function", f"nn.Module: DecoderLayer_{layer}", launch - 1.0, 32.0))
            launched("aten::mm", GEMM, at, 40.125, launch, **{
                "Input Dims": [[512, 1024], [1024, 2048 * (1 + layer)]],
                "Input type": ["c10::BFloat16", "c10::BFloat16"],
            })  # fmt: skip
            launched("aten::_flash_attention_forward", ATTENTION, at + 41.0, 20.5, launch + 10)
            launched("aten::add_", ELEMENTWISE, at + 62.0, 4.25, launch + 20, **{
                "Input Dims": [[512, 1024], [512, 1024]], "Input type": ["float", "float"]
            })  # fmt: skip
            at, launch = at + 70.0, launch + 35.0
        launched("record_param_comms", ALL_REDUCE, at - 10.0 + arrives, 60.0 - arrives, launch, **{
            "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1_000_000,
            "Out msg nelems": 1_000_000, "Group size": ranks, "Process Group Name": "0",
            "Process Group Ranks": str(list(range(ranks))),
        })  # fmt: skip
        launched("aten::copy_", KERNELS["copy"], at + 60.0, 5.0, launch + 10)
        start += 400.0
    return document(events, rank, ranks, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])

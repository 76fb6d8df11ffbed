"""Layers of transformers as scheduling problems: attention split into heads, and backward passes."""

import numpy as np

from dse.schedule.problem import ScheduleOperator, ScheduleProblem
from hardware.operations import CoreKind

CLOCK_HZ = 1.05e9

_HEAD: tuple[tuple[CoreKind, int], ...] = (
    ("tensor", 16384),
    ("vector", 40960),
    ("vector", 4096),
    ("vector", 49152),
    ("vector", 8192),
    ("tensor", 16384),
)
"""Cycles on one core: scores, scale, mask, softmax, dropout, values."""

_TAIL: tuple[tuple[CoreKind, int, int], ...] = (
    ("fused", 40960, 40960),
    ("vector", 8192, 0),
    ("vector", 8192, 0),
    ("fused", 131072, 114688),
    ("fused", 131072, 114688),
    ("vector", 8192, 0),
    ("vector", 8192, 0),
)
"""Projection, add, normalise, two feed-forward products, add, normalise: cycles on one and on all cores."""


def heads_layer(heads: int, tensor_cores: int, vector_cores: int) -> ScheduleProblem:
    """An encoder layer with a chain of six operators for each head (11 + 6 · heads operators).

    Vector work is shared by all vector cores; a product gains nothing from more than one tensor core but in the
    feed-forward part. Four heads on 2 and 4 cores are the shared case ``heads4``.
    """
    operators: list[ScheduleOperator] = []
    edges: list[tuple[int, int]] = []

    def add(kind: CoreKind, single: int, on_all: int, *before: int) -> int:
        if kind == "vector":
            on_all = -(-single // vector_cores)
        operators.append(ScheduleOperator(f"op{len(operators)}", kind, single / CLOCK_HZ, on_all / CLOCK_HZ))
        edges.extend((other, len(operators) - 1) for other in before)
        return len(operators) - 1

    source = add("vector", 8192, 0)
    query, key, value = (add("fused", 40960, 40960, source) for _ in range(3))
    ends = []
    for _ in range(heads):
        last = -1
        for step, (kind, cycles) in enumerate(_HEAD):
            before = (query, key) if step == 0 else (value, last) if step == len(_HEAD) - 1 else (last,)
            last = add(kind, cycles, cycles, *before)
        ends.append(last)
    projection = add(*_TAIL[0], *ends)
    first_sum = add(*_TAIL[1], source, projection)
    norm = add(*_TAIL[2], first_sum)
    inner = add(*_TAIL[3], norm)
    outer = add(*_TAIL[4], inner)
    second_sum = add(*_TAIL[5], first_sum, outer)
    add(*_TAIL[6], second_sum)
    name = f"{heads} heads on {tensor_cores}+{vector_cores}"
    return ScheduleProblem(name, tensor_cores, vector_cores, tuple(operators), tuple(edges))


def backward_layer(seed: int, tensor_cores: int, vector_cores: int) -> ScheduleProblem:
    """The backward pass of an encoder layer (30 operators): data gradients in a chain, weight gradients beside it.

    Every linear operator has a weight gradient (a product) and a bias gradient (a reduction) that nobody waits for.
    Products run on all cores at 50 to 100 % of the ideal speed-up, with one core at no gain.
    """
    rng = np.random.default_rng(seed)
    efficiency = rng.uniform(0.5, 1.0)
    operators: list[ScheduleOperator] = []
    edges: list[tuple[int, int]] = []

    def add(kind: CoreKind, cycles: float, *before: int) -> int:
        cores = {"tensor": tensor_cores, "vector": vector_cores, "fused": min(tensor_cores, vector_cores)}[kind]
        cycles = round(cycles * rng.uniform(0.8, 1.25))
        on_all = cycles if cores == 1 else min(cycles, round(cycles / (efficiency * cores)) + 64)
        operators.append(ScheduleOperator(f"op{len(operators)}", kind, cycles / CLOCK_HZ, on_all / CLOCK_HZ))
        edges.extend((other, len(operators) - 1) for other in before)
        return len(operators) - 1

    def linear(gradient: int, product: int) -> int:
        add("tensor", product, gradient)
        add("vector", 4096, gradient)
        return add("tensor", product, gradient)

    gradient = add("vector", 16384)
    add("vector", 4096, gradient)
    inner = add("fused", 262144, gradient)
    add("tensor", 262144, gradient)
    hidden = linear(inner, 262144)
    joined = add("vector", 16384, gradient, hidden)
    norm = add("vector", 16384, joined)
    values = linear(norm, 65536)
    scores = add("tensor", 32768, values)
    value_gradient = add("tensor", 32768, values)
    softmax = add("vector", 131072, scores)
    mask = add("vector", 65536, softmax)
    query_gradient = add("tensor", 32768, mask)
    key_gradient = add("tensor", 32768, mask)
    ends = [linear(part, 65536) for part in (query_gradient, key_gradient, value_gradient)]
    add("vector", 24576, joined, *ends)
    name = f"backward {seed} on {tensor_cores}+{vector_cores}"
    return ScheduleProblem(name, tensor_cores, vector_cores, tuple(operators), tuple(edges))


def weight_gradients(layers: int, tensor_cores: int, vector_cores: int) -> ScheduleProblem:
    """The backward pass of some equal linear layers (3 · layers + 1 operators).

    Weight and bias gradients hang on a chain of data gradients. A product takes as long on all tensor cores as its
    share of the work on single ones; a vector operator gains twice as much from all cores as there are.
    """
    operators: list[ScheduleOperator] = []
    edges: list[tuple[int, int]] = []

    def add(name: str, kind: CoreKind, cycles: int, gain: int, *before: int) -> int:
        operators.append(ScheduleOperator(name, kind, cycles / CLOCK_HZ, -(-cycles // gain) / CLOCK_HZ))
        edges.extend((other, len(operators) - 1) for other in before)
        return len(operators) - 1

    last = add("chain", "vector", 4_096, 2 * vector_cores)
    for layer in range(layers):
        add(f"weight{layer}", "tensor", 65_536, tensor_cores, last)
        add(f"bias{layer}", "vector", 12_288, 2 * vector_cores, last)
        last = add(f"chain{layer}", "tensor", 65_536, tensor_cores, last)
    name = f"{layers} weight gradients on {tensor_cores}+{vector_cores}"
    return ScheduleProblem(name, tensor_cores, vector_cores, tuple(operators), tuple(edges))


_GPT3_BACKWARD: tuple[tuple[CoreKind, int, int, tuple[int, ...]], ...] = (
    ("fused", 9400, 1126, ()),
    ("tensor", 8988, 1123, ()),
    ("vector", 1343, 42, ()),
    ("tensor", 8988, 1123, (0,)),
    ("tensor", 8988, 1123, (0,)),
    ("vector", 1343, 42, (0,)),
    ("vector", 3272, 346, (3,)),
    ("vector", 4029, 126, (6,)),
    ("vector", 4027, 126, (7,)),
    ("vector", 3355, 105, (8,)),
    ("tensor", 2247, 281, (9,)),
    ("tensor", 2247, 281, (9,)),
    ("vector", 1343, 42, (9,)),
    ("fused", 4362, 273, (10,)),
    ("tensor", 3020, 189, (10,)),
    ("vector", 16106, 503, (13,)),
    ("tensor", 2247, 281, (14,)),
    ("tensor", 2247, 281, (14,)),
    ("vector", 336, 10, (14,)),
    ("vector", 10737, 336, (15,)),
    ("tensor", 3020, 189, (19,)),
    ("tensor", 3020, 189, (19,)),
    ("tensor", 2247, 281, (21,)),
    ("tensor", 2247, 281, (21,)),
    ("vector", 336, 10, (21,)),
    ("tensor", 2247, 281, (20,)),
    ("tensor", 2247, 281, (20,)),
    ("vector", 336, 10, (20,)),
    ("vector", 5369, 168, (16, 22, 25)),
    ("vector", 3272, 346, (28,)),
    ("vector", 4029, 126, (29,)),
    ("vector", 4027, 126, (30,)),
)
"""Kind, microseconds on one and on all cores, and what is waited for."""


def gpt3_backward() -> ScheduleProblem:
    """The backward segment of a GPT-3 block on 8 + 16 cores."""
    operators = tuple(
        ScheduleOperator(f"op{i}", kind, 1e-6 * single, 1e-6 * on_all)
        for i, (kind, single, on_all, _) in enumerate(_GPT3_BACKWARD)
    )
    edges = tuple((before, i) for i, (*_, waits) in enumerate(_GPT3_BACKWARD) for before in waits)
    return ScheduleProblem("gpt3 backward", 8, 16, operators, edges)


def columns_of(problems):
    """The arguments of ``solve_many`` for problems that differ in latencies and cores only."""
    return (
        [operator.kind for operator in problems[0].operators],
        problems[0].edges,
        np.array([[operator.single_s for operator in problem.operators] for problem in problems]).T,
        np.array([[operator.all_cores_s for operator in problem.operators] for problem in problems]).T,
        np.array([problem.tensor_cores for problem in problems]),
        np.array([problem.vector_cores for problem in problems]),
    )

"""Small instances of every shape, and their optimum by trying everything."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from dse.schedule.problem import ALL_CORES, ScheduleOperator, ScheduleProblem


def optimum_s(problem: ScheduleProblem, order: Sequence[tuple[int, int]] = ()) -> float:
    """The optimal makespan: every order of operators, every mode, every core, each operator as early as possible.

    Of each pair (a, b) of ``order`` a is started before b.

    Appending operators in the order of their starts, each after what its core ran before, reaches every left-shifted
    schedule, and one of them is optimal.
    """
    count = len(problem.operators)
    before = [[a for a, b in problem.edges if b == i] for i in range(count)]
    earlier = [[a for a, b in order if b == i] for i in range(count)]
    best = float("inf")
    finish: dict[int, float] = {}

    def place(tensor: tuple[float, ...], vector: tuple[float, ...], latest: float) -> None:
        nonlocal best
        if latest >= best:
            return
        if len(finish) == count:
            best = latest
            return
        for i, operator in enumerate(problem.operators):
            if i in finish or any(j not in finish for j in (*before[i], *earlier[i])):
                continue
            ready = max((finish[j] for j in before[i]), default=0.0)
            tried = set()
            if operator.kind == "fused":
                cores = min(problem.tensor_cores, problem.vector_cores)
            else:
                cores = problem.tensor_cores if operator.kind == "tensor" else problem.vector_cores
            for core in range(cores):
                on_tensor = operator.kind in ("tensor", "fused")
                on_vector = operator.kind in ("vector", "fused")
                state = (tensor[core : core + 1], vector[core : core + 1])
                if state in tried:
                    continue
                tried.add(state)
                start = max(ready, tensor[core] if on_tensor else 0.0, vector[core] if on_vector else 0.0)
                finish[i] = start + operator.single_s
                new_tensor = (*tensor[:core], finish[i], *tensor[core + 1 :]) if on_tensor else tensor
                new_vector = (*vector[:core], finish[i], *vector[core + 1 :]) if on_vector else vector
                place(new_tensor, new_vector, max(latest, finish[i]))
                del finish[i]
            end = latest + operator.all_cores_s
            finish[i] = end
            place((end,) * len(tensor), (end,) * len(vector), end)
            del finish[i]

    place((0.0,) * problem.tensor_cores, (0.0,) * problem.vector_cores, 0.0)
    return best if count else 0.0


def random_problem(
    seed: int, operators: int, max_cores: int = 3, density: float = 0.3, kinds: tuple[str, ...] = ()
) -> ScheduleProblem:
    """A random instance with whole latencies; every third one has shorter all-core modes, every third one longer."""
    rng = np.random.default_rng(seed)
    edges = tuple((i, j) for j in range(operators) for i in range(j) if rng.random() < density)
    speed_up = (1.0, 0.3, 2.0)[seed % 3]
    chosen = kinds or ("tensor", "vector", "fused")
    made = []
    for i in range(operators):
        single_s = float(rng.integers(1, 12))
        all_cores_s = float(max(1, round(single_s * speed_up * rng.uniform(0.5, 1.5))))
        made.append(ScheduleOperator(f"op{i}", str(rng.choice(chosen)), single_s, all_cores_s))  # type: ignore[arg-type]
    tensor_cores, vector_cores = (int(rng.integers(1, max_cores + 1)) for _ in range(2))
    return ScheduleProblem(f"random{seed}", tensor_cores, vector_cores, tuple(made), edges)


@st.composite
def problems(draw: st.DrawFn, max_operators: int = 6, max_cores: int = 3) -> ScheduleProblem:
    """Any instance of at most ``max_operators`` operators, with whole or broken latencies, zero included."""
    count = draw(st.integers(1, max_operators))
    latency = draw(st.sampled_from([st.integers(0, 9).map(float), st.floats(1e-3, 10.0)]))
    operators = tuple(
        ScheduleOperator(f"op{i}", draw(st.sampled_from(["tensor", "vector", "fused"])), draw(latency), draw(latency))
        for i in range(count)
    )
    pairs = [(i, j) for j in range(count) for i in range(j)]
    edges = tuple(pair for pair in pairs if draw(st.integers(0, 2)) == 0)
    return ScheduleProblem("drawn", draw(st.integers(1, max_cores)), draw(st.integers(1, max_cores)), operators, edges)


__all__ = ["ALL_CORES", "optimum_s", "problems", "random_problem"]

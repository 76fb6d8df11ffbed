"""Points of the front for workers apart: full decode workers, and the prefill workers that keep them full."""

import numpy as np

from dse.serve.disaggregated_workers import kinds
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan


def front_apart(problem: ServeProblem) -> list[tuple[float, float, Plan]]:
    """(tokens a second for a user, for an accelerator, configuration): of each TPOT the most for an accelerator."""
    points: list[tuple[float, float, Plan]] = []
    after, output = max(problem.load.output.mean - 1.0, 1e-9), problem.load.output.mean
    for own in kinds(problem.opened()):
        prompts, tokens = own.prefill, own.decode
        if not len(prompts.cell) or not len(tokens.cell):
            continue
        tpot = tokens.pace(tokens.cell, tokens.requests)
        rate = tokens.ranks * tokens.requests / (after * tpot)
        computes = prompts.ranks / prompts.prompt_s
        order = np.lexsort((-computes, prompts.devices))
        most = np.maximum.accumulate(computes[order])
        place = np.searchsorted(most, rate)
        chosen = order[np.minimum(place, len(order) - 1)]
        devices = tokens.devices + prompts.devices[chosen]
        fits = (place < len(order)) & (devices <= problem.devices)
        per_device = np.where(fits, rate * output / devices, 0.0)
        for row in _undominated_rows(1.0 / tpot, per_device):
            points.append((1.0 / float(tpot[row]), float(per_device[row]), own.plan(int(chosen[row]), row)))
    return points


def _undominated_rows(user: np.ndarray, device: np.ndarray) -> list[int]:
    kept: list[int] = []
    for row in np.lexsort((-device, -user)):
        if device[row] > (device[kept[-1]] if kept else 0.0):
            kept.append(int(row))
    return kept

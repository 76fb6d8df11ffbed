"""How networks learn: passes over graphs in random order, with AdamW along a cosine."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from dse.run.progress import StopSignal, ask
from policies.fabric.model.examples import Examples
from policies.fabric.model.threads import one_thread

Places = npt.NDArray[np.intp]


class PassSettings(Protocol):
    """What decides passes.

    Attributes:
        epochs: passes over the examples.
        graphs_in_batch: whose examples are learned from together.
        learning_rate: at the start; it falls to 0 along a cosine.
        weight_decay: of AdamW.
    """

    @property
    def epochs(self) -> int:
        """See above."""

    @property
    def graphs_in_batch(self) -> int:
        """See above."""

    @property
    def learning_rate(self) -> float:
        """See above."""

    @property
    def weight_decay(self) -> float:
        """See above."""


def device() -> torch.device:
    """Where networks learn and predict: a CUDA device, where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def predicted(
    network: nn.Module, answers: Callable[[Examples], Tensor], examples: Examples, batch: int
) -> npt.NDArray[np.float64]:
    """What a network that has learned says, [S].

    Args:
        network: that is asked.
        answers: its answers on examples, [S].
        examples: of which it is asked.
        batch: examples at a time.
    """
    network.eval()
    starts = range(0, len(examples), batch)
    with torch.inference_mode(), one_thread():
        parts = [answers(examples.at(slice(first, first + batch))).double().cpu().numpy() for first in starts]
    return np.concatenate(parts) if parts else np.zeros(0)


def learn(
    network: nn.Module,
    settings: PassSettings,
    graph: npt.NDArray[np.int64],
    error: Callable[[Places], Tensor],
    seed: int,
    stop: StopSignal,
) -> None:
    """Change the weights of ``network`` so that the error falls.

    Args:
        network: that learns.
        settings: of the passes.
        graph: number of the graph of each example, [S].
        error: of the examples at some places.
        seed: of the order of graphs.
        stop: called after each pass.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    optimiser = AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    graphs, generator = np.unique(graph), np.random.default_rng(seed)
    batches = -(-len(graphs) // settings.graphs_in_batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.epochs * batches)
    for _ in range(settings.epochs):
        network.train()
        shuffled = generator.permutation(graphs)
        for first in range(0, len(graphs), settings.graphs_in_batch):
            drawn = shuffled[first : first + settings.graphs_in_batch]
            optimiser.zero_grad()
            torch.autograd.backward(error(np.flatnonzero(np.isin(graph, drawn))))
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
        ask(stop)

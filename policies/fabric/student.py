"""Students learn: small networks that correct the rules while placements are annealed.

Placements are described by :class:`dse.fabric.search.describe.Describer`; what is learned is an array of weights that
:class:`dse.fabric.search.student.Student` takes down to the kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from dse.fabric.search.describe import Describer
from dse.fabric.search.student import FEATURES, Student
from dse.fabric.search.student_kernels import MAX_RELATIVE
from dse.run.progress import StopSignal, ask, never_stop
from hardware.fabrics import Fabric
from policies.fabric.data.records import Samples
from policies.fabric.model.threads import one_thread
from policies.fabric.student_settings import StudentSettings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_TIE = 0.01
"""Placements of a graph whose log slots differ by less are not ranked: that is the error of a label."""

_STEPS_BETWEEN_STOPS = 50


@dataclass(frozen=True, eq=False)
class StudentExamples:
    """What students learn from.

    Attributes:
        features: of placements (:data:`dse.fabric.search.student.FEATURES`), [S, F], where they are of several fabrics
            with constants of each, [S, F + C].
        target: log slots between two samples, in slots of the slowest unit in isolation, [S].
        graph: number of the graph of each, [S].
    """

    features: Floats
    target: Floats
    graph: Integers

    def at(self, places: npt.NDArray[np.bool_]) -> "StudentExamples":
        """Some of them, by a mask."""
        return StudentExamples(self.features[places], self.target[places], self.graph[places])


def student_examples(samples: Samples, fabric: Fabric) -> StudentExamples:
    """Labelled placements on a fabric as students see them."""
    describers = {number: Describer(record.pipeline, fabric) for number, record in samples.graphs.items()}
    features = np.array([describers[each.graph](each.placement) for each in samples.samples]).reshape(-1, len(FEATURES))
    base = np.array([describers[each.graph].base_slots for each in samples.samples])
    interval = np.array([each.interval_slots for each in samples.samples], dtype=np.float64)
    graph = np.array([each.graph for each in samples.samples], dtype=np.int64)
    return StudentExamples(features, np.log(interval / base), graph)


class _Network(nn.Module):
    """The network of :meth:`dse.fabric.search.student.Student.predict`."""

    def __init__(self, settings: StudentSettings, inputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, settings.width)
        self.second = nn.Linear(settings.width, settings.second)
        self.last = nn.Linear(settings.second, 1)

    def forward(self, values: Tensor) -> Tensor:
        """Log slots of standardised features, [S, F + C] to [S]."""
        hidden = nn.functional.softsign(self.first(values))
        predicted: Tensor = self.last(nn.functional.softsign(self.second(hidden)))[:, 0]
        return predicted


@dataclass(frozen=True)
class StudentLearner:
    """Trains a student by Huber loss and, inside graphs, log(1 + exp(−d / ``rank_scale``)) of pairs.

    d is the difference of the predictions of a pair, the one with the larger label first.

    Attributes:
        settings: of student and training.
        seed: of its first weights.
        stop: called between steps.
    """

    settings: StudentSettings = field(default_factory=StudentSettings)
    seed: int = 0
    stop: StopSignal = field(default=never_stop, compare=False)

    def fit(self, examples: StudentExamples, weight: float = 1.0) -> Student:
        """The student that the examples teach, of this weight in the cost.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        return self.networks(examples).student(weight)

    def networks(self, examples: StudentExamples) -> "Networks":
        """What the examples teach.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        examples = examples.at(_gaps(examples) <= self.settings.max_gap)
        mean, scale = examples.features.mean(axis=0), examples.features.std(axis=0)
        scale = np.where(scale > 1e-6, scale, 1.0)
        values = torch.from_numpy(np.clip((examples.features - mean) / scale, -MAX_RELATIVE, MAX_RELATIVE))
        with one_thread(), torch.random.fork_rng(devices=[]):
            members = [self._member(self.seed + number, values, examples) for number in range(self.settings.members)]
        return Networks(tuple(members), mean, scale)

    def _member(self, seed: int, values: Tensor, examples: StudentExamples) -> Mapping[str, Floats]:
        """The weights of one network."""
        torch.manual_seed(seed)
        network = _Network(self.settings, examples.features.shape[1]).double()
        with torch.no_grad():
            network.last.bias.fill_(float(examples.target.mean()))
        self._descend(network, values, examples)
        return {name: tensor.detach().numpy().copy() for name, tensor in network.named_parameters()}

    def _descend(self, network: _Network, values: Tensor, examples: StudentExamples) -> None:
        settings, target = self.settings, torch.from_numpy(examples.target)
        slower, faster = _pairs(examples)
        optimiser = AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.steps)
        for step in range(settings.steps):
            predicted = network(values)
            error = nn.functional.huber_loss(predicted, target, delta=0.3)
            if settings.ranking_weight > 0 and len(slower):
                difference = (predicted[slower] - predicted[faster]) / settings.rank_scale
                ranking = nn.functional.softplus(-difference).mean()
                error = error + settings.ranking_weight * settings.rank_scale * ranking
            optimiser.zero_grad()
            torch.autograd.backward(error)
            optimiser.step()
            schedule.step()
            if step % _STEPS_BETWEEN_STOPS == 0:
                ask(self.stop)


@dataclass(frozen=True, eq=False)
class Networks:
    """Networks that have learned.

    Attributes:
        members: weights of each, by name.
        mean, scale: by which what they see is standardised, [F + C].
    """

    members: tuple[Mapping[str, Floats], ...]
    mean: Floats
    scale: Floats

    def student(self, weight: float, constants: Floats | None = None) -> Student:
        """The student that predicts their mean on a fabric with these constants, [C]: layers next to each other, joined
        at the output. What never changes on a fabric is a part of the first bias.
        """
        members, many = self.members, len(FEATURES)
        values = (np.zeros(0) if constants is None else constants) - self.mean[many:]
        known = np.clip(values / self.scale[many:], -MAX_RELATIVE, MAX_RELATIVE)
        width, second = (len(members[0][f"{layer}.bias"]) for layer in ("first", "second"))
        joined = np.zeros((len(members) * width, len(members) * second))
        for number, member in enumerate(members):
            rows, columns = (slice(number * size, (number + 1) * size) for size in (width, second))
            joined[rows, columns] = member["second.weight"].T
        return Student(
            weight=weight,
            mean=self.mean[:many],
            scale=self.scale[:many],
            first=np.concatenate([member["first.weight"].T[:many] for member in members], axis=1),
            first_bias=np.concatenate(
                [member["first.bias"] + known @ member["first.weight"].T[many:] for member in members]
            ),
            second=joined,
            second_bias=np.concatenate([member["second.bias"] for member in members]),
            last=np.concatenate([member["last.weight"][0] for member in members]) / len(members),
            last_bias=np.mean([member["last.bias"] for member in members], axis=0),
        )


def _gaps(examples: StudentExamples) -> Floats:
    """Log slots by which each placement is slower than the fastest one of its graph, [S]."""
    _, place = np.unique(examples.graph, return_inverse=True)
    fastest = np.full(place.max(initial=0) + 1, np.inf)
    np.minimum.at(fastest, place, examples.target)
    return np.asarray(examples.target - fastest[place], dtype=np.float64)


def _pairs(examples: StudentExamples) -> tuple[Tensor, Tensor]:
    """Pairs of placements of a graph that are distinguished, the slower ones and the faster ones."""
    slower, faster = [], []
    for graph in np.unique(examples.graph):
        places = np.flatnonzero(examples.graph == graph)
        target = examples.target[places]
        first, second = np.nonzero(target[:, None] - target > _TIE)
        slower.append(places[first])
        faster.append(places[second])
    return torch.from_numpy(np.concatenate(slower)), torch.from_numpy(np.concatenate(faster))

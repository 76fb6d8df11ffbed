"""The options of ``dse fabric train`` and ``dse fabric evaluate``. Nothing heavy is imported."""

from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal

from dse.importer.libraries import install
from dse.run.options import Option, Options
from hardware.inputs import fail

TrainedName = Literal["stack", "graph", "graph-alone"]
ModelName = Literal["ridge", "trees", "trees-all", "perceptrons", "stack", "graph", "graph-alone", "paper"]
TableName = Literal["main", "left-out", "annotations", "versions"]
Denied = Literal["slots", "units", "edges"]

_NETWORK, _SAMPLES = "Network and training", "Samples"
"""Groups of options under ``--help``."""

_NEEDED = ("torch", "sklearn", "safetensors")

_PIECE_S, _EPOCH_S, _STACK_S = 0.6, 1e-3, 0.02
"""Seconds of a graph's placements, of a placement in a pass of training, and of a placement for the stack."""


@dataclass(frozen=True)
class NetworkOptions(Options):
    """What decides graph networks and how they learn."""

    layers: Annotated[int, Option("Rounds of message passing.", min=1, max=64, group=_NETWORK)] = 2
    width: Annotated[int, Option("Size of the hidden vector of a node.", min=1, max=4096, group=_NETWORK)] = 16
    members: Annotated[
        int, Option("Networks whose mean is the prediction of graph and graph-alone.", min=1, max=64, group=_NETWORK)
    ] = 1
    epochs: Annotated[int, Option("Passes over the samples.", min=1, max=10_000, group=_NETWORK)] = 40
    deny: Annotated[
        tuple[Denied, ...],
        Option(
            "Features to withhold from the model; may be given several times. slots: operator times on a unit; units: "
            "unit types; edges: traffic of nets, routes and links.",
            group=_NETWORK,
        ),
    ] = ()

    def settings_of(self, model: str) -> Any:
        """The settings of the stack or of graph networks, by name."""
        from policies.fabric.model.settings import CostSettings

        return CostSettings(
            layers=self.layers,
            width=self.width,
            members=0 if model == "stack" else self.members,
            with_stack=model != "graph-alone",
            epochs=self.epochs,
            with_slots="slots" not in self.deny,
            unit_features="units" not in self.deny,
            edge_features="edges" not in self.deny,
        )


_MAY_CHANGE = ("graphs", "model", *(field.name for field in fields(NetworkOptions)))
"""Options of training that may change when a run is resumed: samples are added, and the model is fitted again."""


@dataclass(frozen=True)
class FabricTraining(NetworkOptions):
    """The options of ``dse fabric train``."""

    COMMAND: ClassVar[str] = "fabric train"

    description: ClassVar[str] = """Collect labelled placements on a fabric, and train the learned cost model on them.

    It shows whether a cost model trained on the simulator places better than rules alone: annealers place random
    blocks, the simulator labels the placements, and later rounds use the model of earlier ones. The model is written to
    DIR/best, with its accuracy on the held-out graphs (one eleventh of all); some of these are then placed and
    simulated. With --resume and a larger --graphs, only missing samples are collected. Needs the extra `learn`.
    """

    model: Annotated[
        TrainedName,
        Option(
            "stack: trees and perceptrons; graph: the mean of the stack and of networks over units, nets, routes "
            "and links; graph-alone: these networks without the stack."
        ),
    ] = "stack"
    fabric: Annotated[str, Option("Fabric: a name from `dse specs`, or a file.", metavar="SPEC")] = "plasticine-8x16"
    slots: Annotated[
        str,
        Option("Table of slots per operator on a compute unit: a name or a file.", metavar="SPEC", group=_SAMPLES),
    ] = "streaming"
    graphs: Annotated[int, Option("Random graphs.", min=10, max=10**6)] = 1_176
    placements: Annotated[int, Option("Placements per graph.", min=1, max=1_000, group=_SAMPLES)] = 5
    rounds: Annotated[
        int,
        Option(
            "Rounds in which annealers follow the model of earlier rounds, with half of the graphs.",
            min=0,
            max=100,
            group=_SAMPLES,
        ),
    ] = 3

    def require_inputs(self) -> None:
        """Read fabric and table before anything is written.

        Raises:
            InputError: one that is malformed, or with which no graphs can be drawn.
        """
        from dse.fabric.cases import require_block_cases
        from hardware.fabric_specs import fabric
        from hardware.operator_slots import operator_slots

        require_block_cases(fabric(self.fabric), operator_slots(self.slots))

    def run_document(self) -> dict[str, Any]:
        """What a run that is resumed must have in common with the one that began, in addition to the content of its
        files.

        It has fabric and table by name, so that files may be moved.

        Raises:
            InputError: an unknown fabric or table.
        """
        from hardware.fabric_specs import fabric
        from hardware.operator_slots import operator_slots

        fixed = {name: value for name, value in self.document().items() if name not in _MAY_CHANGE}
        return fixed | {"fabric": fabric(self.fabric).name, "slots": operator_slots(self.slots).name}

    def network(self) -> Any:
        """The settings of the model."""
        return self.settings_of(self.model)

    def predicted_s(self) -> float:
        """Approximate seconds on one core."""
        members = 0 if self.model == "stack" else self.members
        return self.graphs * (_PIECE_S + self.placements * (_STACK_S + _EPOCH_S * self.epochs * members))


@dataclass(frozen=True)
class FabricEvaluation(NetworkOptions):
    """The options of ``dse fabric evaluate``."""

    COMMAND: ClassVar[str] = "fabric evaluate"

    description: ClassVar[str] = """Print how accurate cost models are on graphs that they were not trained on.

    It shows how accurate predicted throughputs are, and which model is the most accurate. SAMPLES is the directory of
    `dse fabric train`. Models are trained in five folds by graph; with --checkpoint, a trained model is evaluated as it
    is, on graphs that it was not trained on. RE: mean relative error of the throughput; rho: Spearman rank correlation;
    placer: rank correlation among the half of each graph's placements with the least wirelength. Needs the extra
    `learn`.
    """

    samples: Annotated[str, Option(metavar="SAMPLES", positional=True)] = ""
    model: Annotated[
        tuple[ModelName, ...],
        Option(
            "Model; may be given several times (default: ridge, trees, trees-all and stack). trees-all: trees with "
            "contention features; stack: these trees and perceptrons, weighted by their errors on held-out graphs; "
            "graph: the mean of the stack and of graph networks; graph-alone: these networks without it; paper: "
            "Algorithm 1 of the paper, with sizes of its own."
        ),
    ] = ()
    table: Annotated[
        tuple[TableName, ...],
        Option(
            "Table; may be given several times (default: main). main: five folds by graph, also by kind of block; "
            "left-out: each kind of block left out, compared with the same models in folds by graph; annotations: "
            "with and without operator times; versions: the same placements with a compiler that has other delays "
            "and buffers."
        ),
    ] = ()
    checkpoint: Annotated[
        str | None,
        Option("Evaluate this trained model instead; must not be combined with training options.", metavar="DIR"),
    ] = None
    fabric: Annotated[str, Option("Fabric of the samples.", metavar="SPEC")] = "plasticine-8x16"

    def run_document(self) -> dict[str, Any]:
        """What a run that is resumed must have in common with the one that began, in addition to the content of its
        files.

        Samples and checkpoint go by their digests, which the run directory has among its inputs. The fabric stands in
        it by its name: it must be the one that the samples state.

        Raises:
            InputError: an unknown fabric.
        """
        from hardware.fabric_specs import fabric

        fixed = {name: value for name, value in self.document().items() if name not in ("samples", "checkpoint")}
        return fixed | {"fabric": fabric(self.fabric).name}


def is_installed() -> bool:
    """Whether the extra ``learn`` is."""
    return all(find_spec(name) is not None for name in _NEEDED)


def ask_for_extra(options: Options) -> None:
    """Refuse to run without the extra ``learn``.

    Raises:
        InputError: it is not installed.
    """
    ask_for_extra_of(options.command(), "", "")


def ask_for_extra_of(command: str, key: str, value: str) -> None:
    """As :func:`ask_for_extra`, for an option of a command."""
    if not is_installed():
        raise fail(command, key, value, f"the learned cost model needs the extra learn: {install('learn')}")

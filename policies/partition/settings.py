"""Everything that can be chosen about the learned partitioner, in one place."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dse.run.options import STRICT
from hardware.inputs import shown

AttentionName = Literal["none", "full"]
HeadName = Literal["ordinal", "categorical"]
PriorName = Literal["none", "diagonal"]
AnchorName = Literal["prior", "best"]
SolverName = Literal["fix", "sample", "none"]
OrderName = Literal["mixed", "random"]
RatioName = Literal["node", "joint"]
CreditName = Literal["repaired", "sampled"]
AdvantageName = Literal["rank", "standard", "better"]

_NETWORK = ("layers", "width", "attention", "heads", "head", "prior", "anchor", "passes")
"""Settings that checkpoints fix."""


MAX_REPEATED = 10_000
"""Rollouts, graphs, minibatches, epochs and elites at most. Time and memory grow with them: that is more than any run
can use, so that a mistake in a file ends in a line and not in a machine without memory."""

_Count = Annotated[int, Field(ge=1, le=MAX_REPEATED)]
_Many = Annotated[int, Field(ge=0, le=1_000_000)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Weight = Annotated[float, Field(ge=0, le=1_000)]
"""Of a term of the loss."""


@dataclass(frozen=True)
class LearningSettings:
    """The learned partitioner; the defaults are ours, :data:`PAPER` has the paper's values.

    Attributes:
        layers, width: of the GraphSAGE stack. Paper: 8 × 128. Ours: 4 × 64, about a sixth of the time. At most 64 ×
            4,096, which has 3 × 10⁹ weights.
        attention: over each graph's operators, behind that stack: ``none``, or ``full`` (softmax, O(N²)), as the paper.
        heads: of that attention.
        head: ``ordinal``: a position and a spread for each operator, regardless of the number of chips;
            ``categorical``: a logit for each of 64 chips.
        prior: what the network corrects: nothing; or ``diagonal``, the chip at an operator's share of the work.
        anchor: whether it always corrects the ``prior``, or the ``best`` partition that is known of the graph, which
            it then sees as equation (7) lets it see the pass before: the policy proposes changes.
        anchor_visits: groups of rollouts of a graph after which its best partition is forgotten, so that a policy that
            is trained over many graphs sees good and bad ones; 0: never.
        focus: share of the rollouts that change operators of one stretch of the work only, or a few scattered ones.
            Once the bottleneck is measured, it is the share of the rest: 80 % of the rollouts change what is at the
            bottleneck, however large ``focus`` is (:func:`dse.partition.search.proposals.focused`). 0: none does
            either, and every rollout may change every operator.
        passes: T of equation (7): each pass after the first sees the assignment that the one before has drawn.
        warmup: groups that the solver draws with equal weights before any that a policy draws which knows nothing, no
            weights and no prior: its own first draws are no better, and less different from each other.
        rollouts: candidates of one graph that are drawn, repaired and priced together, and ranked. Paper: 20.
        graphs: groups of rollouts of one iteration, each of another graph in training over many; where one graph is
            partitioned, an update waits for all of them, while the best partition known is followed at once.
        minibatches, epochs: of one iteration. Paper: 4 and 10.
        solver: what repairs a candidate: ``fix``, ``sample``, or ``none`` (an invalid one has reward 0).
        order: of the solver's visits: ``random`` as in the paper, or ``mixed``: every other candidate's topological.
        ratio: PPO's ratio and clipping for every operator, or ``joint`` for the whole assignment.
        credit: whether the likelihood of the ``repaired`` partition is raised, or of the ``sampled`` candidate.
        advantage: by ``rank`` within the rollouts of one graph; ``standard``: reward less mean, over deviation; or
            ``better``: 1 for rollouts that are better than the anchor ``best`` and else 0, less their mean, for
            operators that they have moved: groups in which nothing is better teach nothing. Most changes of a good
            partition make it worse, so that the other two teach to change nothing.
        policy_weight: of the PPO term.
        imitation_weight: of the cross-entropy on the elite; 0: no imitation.
        elites: how many best distinct repaired partitions of a graph are imitated.
        entropy_weight: of the entropy bonus.
        clip: of PPO's ratio: at most 1, from where on it does not clip below.
        learning_rate: Adam's, about how far a weight goes in a step: at most 1.
        gradient_clip: the largest norm of a gradient.
        correlation: of two operators' draws at the same work position; 0: every operator for itself.
        temperature: by which the log-probabilities of every other rollout's draw are divided: a narrow distribution
            would hardly ever show what lies beyond it. Likelihoods are those of the undivided one.
        correlation_width: how far along the work (0 … 1) draws stay alike. A graph's operators each keep about 3 over
            it numbers: at 0.001, the least, 10,000 operators 120 MB.

    Raises:
        ValueError: a value is not of its type or outside its range.
    """

    layers: Annotated[int, Field(ge=1, le=64)] = 4
    width: Annotated[int, Field(ge=1, le=4_096)] = 64
    attention: AttentionName = "none"
    heads: Annotated[int, Field(ge=1, le=4_096)] = 4
    head: HeadName = "ordinal"
    prior: PriorName = "diagonal"
    anchor: AnchorName = "prior"
    anchor_visits: _Many = 0
    focus: _Share = 0.0
    passes: Annotated[int, Field(ge=1, le=100)] = 1
    warmup: _Many = 2
    rollouts: _Count = 10
    graphs: _Count = 1
    minibatches: _Count = 1
    epochs: _Count = 8
    solver: SolverName = "fix"
    order: OrderName = "mixed"
    ratio: RatioName = "node"
    credit: CreditName = "repaired"
    advantage: AdvantageName = "rank"
    policy_weight: _Weight = 0.3
    imitation_weight: _Weight = 1.0
    elites: _Count = 5
    entropy_weight: _Weight = 0.003
    clip: Annotated[float, Field(gt=0, le=1)] = 0.2
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-3
    gradient_clip: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    correlation: Annotated[float, Field(ge=0, lt=1)] = 0.8
    correlation_width: Annotated[float, Field(ge=1e-3, le=100)] = 0.07
    temperature: Annotated[float, Field(ge=0.01, le=1e6)] = 1.0

    def __post_init__(self) -> None:
        _require_valid(self.document())
        if self.advantage == "better" and self.anchor != "best":
            raise ValueError(f"`advantage: better` needs `anchor: best`, but got {self.anchor}")
        if self.attention != "none" and self.width % self.heads:
            raise ValueError(f"`heads` must divide `width`, but got {self.heads} and {self.width}")

    def document(self) -> dict[str, Any]:
        """The settings as JSON types."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "LearningSettings":
        """The settings that :meth:`document` wrote.

        Raises:
            ValueError: an unknown name, or a value that cannot be.
        """
        unknown = set(document) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"settings must be known, but got {', '.join(sorted(map(shown, unknown)))}")
        return cls(**document)

    def on_one_graph(self) -> "LearningSettings":
        """How one graph is partitioned after such a training: a policy that refines follows what is better at once."""
        return REFINING if self.anchor == "best" else self

    def with_network_of(self, other: "LearningSettings") -> "LearningSettings":
        """These settings with the network of the other ones, whose weights they can then begin with."""
        return replace(self, **{name: getattr(other, name) for name in _NETWORK})


_FIELDS: dict[str, Any] = {field.name: (field.type, ...) for field in fields(LearningSettings)}

_Model: type[BaseModel] = create_model(
    "LearningSettings", __config__=STRICT | ConfigDict(allow_inf_nan=False), **_FIELDS
)


def _require_valid(values: Mapping[str, Any]) -> None:
    """Refuse a value that is not of its field's type, or outside its range."""
    try:
        _Model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name, rule = str(first["loc"][0]), first["msg"].replace("Input should", "must", 1)
        if first["type"].startswith(("greater", "less")):
            name, rule = _range(name), "must hold"
        raise ValueError(f"`{name}` {rule}, but got {shown(first['input'])}") from error


def _range(name: str) -> str:
    """The limits of a number, as ``0 < name <= 1``."""
    lower, upper = _Model.model_fields[name].metadata
    below = f"{lower.ge:g} <=" if hasattr(lower, "ge") else f"{lower.gt:g} <"
    above = f"<= {upper.le:g}" if hasattr(upper, "le") else f"< {upper.lt:g}"
    return f"{below} {name} {above}"


PAPER = LearningSettings(
    layers=8,
    width=128,
    attention="full",
    head="categorical",
    prior="none",
    passes=2,
    warmup=0,
    rollouts=20,
    minibatches=4,
    epochs=10,
    order="random",
    ratio="joint",
    credit="sampled",
    advantage="standard",
    policy_weight=1.0,
    imitation_weight=0.0,
    entropy_weight=0.01,
    learning_rate=1e-3,
    correlation=0.0,
)
"""As the paper has it (sections 4.1 and 5.1); of T, the learning rate and the entropy bonus it says nothing."""

REFINING = LearningSettings(
    anchor="best",
    focus=0.7,
    advantage="better",
    policy_weight=1.0,
    imitation_weight=0.0,
    rollouts=4,
    graphs=5,
    epochs=2,
    learning_rate=1e-4,
)
"""The policy proposes changes to the best partition that is known: what ``dse partition --method rl`` does."""

FORMS: Mapping[str, LearningSettings] = {
    "refine": replace(REFINING, graphs=32, rollouts=20, anchor_visits=10, learning_rate=2e-4),
    "prior": LearningSettings(),
    "plain": LearningSettings(prior="none"),
    "paper": PAPER,
}
"""What may be pretrained, by name."""

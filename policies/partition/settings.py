"""Everything that can be chosen about the learned partitioner, in one place."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Literal, get_args, get_origin

from hardware.inputs import shown

AttentionName = Literal["none", "full", "linear"]
HeadName = Literal["ordinal", "categorical"]
PriorName = Literal["none", "diagonal", "dp"]
AnchorName = Literal["prior", "best"]
SolverName = Literal["fix", "sample", "none"]
OrderName = Literal["mixed", "random"]
RatioName = Literal["node", "joint"]
CreditName = Literal["repaired", "sampled"]
AdvantageName = Literal["rank", "standard", "better"]

_NETWORK = ("layers", "width", "attention", "heads", "head", "prior", "anchor")


@dataclass(frozen=True)
class _Range:
    """Where a number must lie; ``open_lower``, ``open_upper``: that end itself is left out."""

    lower: float
    upper: float
    open_lower: bool = False
    open_upper: bool = False

    def __contains__(self, value: float) -> bool:
        # What is no number compares as false.
        return (self.lower < value if self.open_lower else self.lower <= value) and (
            value < self.upper if self.open_upper else value <= self.upper
        )

    def rule(self, name: str) -> str:
        """What must hold of the number of that name."""
        below, above = ("<" if is_open else "<=" for is_open in (self.open_lower, self.open_upper))
        return f"{self.lower:g} {below} {name} {above} {self.upper:g}"


MAX_REPEATED = 10_000
"""Rollouts, graphs, minibatches, epochs and elites at most. Time and memory grow with them: that is more than any run
can use, so that a mistake in a file ends in a line and not in a machine without memory."""

_COUNT, _MANY = _Range(1, MAX_REPEATED), _Range(0, 1_000_000)

_WEIGHT = _Range(0, 1_000)
"""Of a term of the loss."""


@dataclass(frozen=True)
class LearningSettings:
    """The learned partitioner; the defaults are ours, :data:`PAPER` has the paper's values.

    Attributes:
        layers, width: of the GraphSAGE stack. Paper: 8 × 128. Ours: 4 × 64, about a sixth of the time. At most 64 ×
            4,096, which has 3 × 10⁹ weights.
        attention: over each graph's operators, behind that stack: ``none``, ``full`` (softmax, O(N²)) or ``linear``
            (O(N)). With 10,000 operators, 8 × 128 and one thread a step forward and back took 1.7 s without,
            1.5 s with linear and 10 s with full attention, in 1.1 GB: beyond some thousand operators take linear.
        heads: of that attention.
        head: ``ordinal``: a position and a spread for each operator, whatever the number of chips; ``categorical``: a
            logit for each of 64 chips.
        prior: what the network corrects: nothing; ``diagonal``, the chip at an operator's share of the work;
            ``dp``, the chips of a start partition.
        anchor: whether it goes on to correct the ``prior``, or the ``best`` partition that is known of the graph, which
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
        graphs: groups of rollouts of one iteration: of so many graphs in training over many; where one graph is
            partitioned, learning waits for so many, while the best partition known is followed at once.
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

    layers: Annotated[int, _Range(1, 64)] = 4
    width: Annotated[int, _Range(1, 4_096)] = 64
    attention: AttentionName = "none"
    heads: Annotated[int, _Range(1, 4_096)] = 4
    head: HeadName = "ordinal"
    prior: PriorName = "diagonal"
    anchor: AnchorName = "prior"
    anchor_visits: Annotated[int, _MANY] = 0
    focus: Annotated[float, _Range(0, 1)] = 0.0
    passes: Annotated[int, _Range(1, 100)] = 1
    warmup: Annotated[int, _MANY] = 2
    rollouts: Annotated[int, _COUNT] = 10
    graphs: Annotated[int, _COUNT] = 1
    minibatches: Annotated[int, _COUNT] = 1
    epochs: Annotated[int, _COUNT] = 8
    solver: SolverName = "fix"
    order: OrderName = "mixed"
    ratio: RatioName = "node"
    credit: CreditName = "repaired"
    advantage: AdvantageName = "rank"
    policy_weight: Annotated[float, _WEIGHT] = 0.3
    imitation_weight: Annotated[float, _WEIGHT] = 1.0
    elites: Annotated[int, _COUNT] = 5
    entropy_weight: Annotated[float, _WEIGHT] = 0.003
    clip: Annotated[float, _Range(0, 1, open_lower=True)] = 0.2
    learning_rate: Annotated[float, _Range(0, 1, open_lower=True)] = 2e-3
    gradient_clip: Annotated[float, _Range(0, 1e6, open_lower=True)] = 1.0
    correlation: Annotated[float, _Range(0, 1, open_upper=True)] = 0.8
    correlation_width: Annotated[float, _Range(1e-3, 100)] = 0.07
    temperature: Annotated[float, _Range(0.01, 1e6)] = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, field.type, getattr(self, field.name))
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
        return replace(self, **{name: getattr(other, name) for name in (*_NETWORK, "passes")})

    def same_network(self, other: "LearningSettings") -> bool:
        """Whether weights that were learned under these settings fit a network of the other ones."""
        return all(getattr(self, name) == getattr(other, name) for name in _NETWORK)


def _check(name: str, kind: Any, value: Any) -> None:
    """Refuse a value that is not of its annotation: one of some names, or a number of a type in a range."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"`{name}` must be one of {', '.join(get_args(kind))}, but got {shown(value)}")
        return
    number, limits = get_args(kind)
    # True counts as 1 in Python, and a whole number as a float.
    if isinstance(value, bool) or not isinstance(value, int if number is int else (int, float)):
        raise ValueError(f"`{name}` must be a {'whole ' if number is int else ''}number, but got {shown(value)}")
    if value not in limits:
        raise ValueError(f"`{limits.rule(name)}` must hold, but got {shown(value)}")


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

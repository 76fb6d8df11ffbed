"""A configuration that serves: engine, how the chips of a replica share the model, replicas, batch, chunk, formats."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

from dse.plan.key_values import pairs_of, require_once
from dse.serve.shape import Shape, WeightFormat
from hardware.documents import read_document, yaml_of
from hardware.inputs import Fault, InputError, fail, nearest, shown

SCHEMA = "dse.serving/1"

PartialPlan = Mapping[str, Any]
"""Some keys of a configuration with their values; the others are open."""

_SUFFIXES = (".yaml", ".yml", ".json")
_LARGEST = 2**20


@dataclass(frozen=True)
class ServingPlan:
    """A whole configuration.

    Attributes:
        mode: ``aggregated``: prompts and decodes share the chips.
        engine: what composes the steps.
        tensor: chips that share each attention, heads cut.
        pipeline: stages of consecutive layers; as many batches are on their way at once.
        attention_data: groups of ``tensor`` chips with requests of their own, which share the experts.
        expert: groups over which experts are spread.
        expert_tensor: chips that share each expert; ``expert`` · ``expert_tensor`` = ``tensor`` · ``attention_data``.
        replicas: of all this, each with its part of the requests.
        batch: requests that a rank runs at once.
        chunk: new tokens of a step.
        precision: format of the weights.
        kv_precision: format of keys and values.
    """

    mode: str
    engine: str
    tensor: int
    pipeline: int
    attention_data: int
    expert: int
    expert_tensor: int
    replicas: int
    batch: int
    chunk: int
    precision: WeightFormat
    kv_precision: str

    @property
    def shape(self) -> Shape:
        """Of one replica."""
        return Shape(self.tensor, self.attention_data, self.expert, self.expert_tensor, self.pipeline)

    @property
    def accelerators(self) -> int:
        """Of all replicas."""
        return self.replicas * self.shape.chips

    @property
    def groups(self) -> int:
        """Batches that are on their way at once: of every rank and stage of every replica."""
        return self.replicas * self.attention_data * self.pipeline

    def text(self) -> str:
        """The short form, which :func:`read_plan` reads."""
        return ",".join(f"{key}={value}" for key, value in asdict(self).items() if key not in self.implied)

    @property
    def implied(self) -> set[str]:
        """Keys that the others decide, or that have their usual value."""
        left_out = {"mode"}
        left_out |= {key for key in ("pipeline", "attention_data") if getattr(self, key) == 1}
        if self.expert == 1 and self.expert_tensor == self.tensor * self.attention_data:
            left_out |= {"expert", "expert_tensor"}
        return left_out

    def document(self) -> dict[str, Any]:
        """The keys and values in JSON types."""
        return asdict(self)


KEYS = tuple(each.name for each in fields(ServingPlan))

_TYPES = get_type_hints(ServingPlan)

ALIASES = {
    "tp": "tensor", "pp": "pipeline", "dp": "attention_data", "attention_dp": "attention_data", "ep": "expert",
    "moe_ep": "expert", "moe_tp": "expert_tensor", "max_num_seqs": "batch", "max_batch_size": "batch",
    "max_running_requests": "batch", "max_num_batched_tokens": "chunk", "chunked_prefill_size": "chunk",
    "max_num_tokens": "chunk", "kv_cache_dtype": "kv_precision", "tensor_parallel_size": "tensor",
    "pipeline_parallel_size": "pipeline", "data_parallel_size": "attention_data",
}  # fmt: skip
"""Of the engines' own options, with hyphens or without; each is taken for a key."""


def read_plan(text: str) -> dict[str, Any]:
    """The keys that ``text`` fixes: ``KEY=VALUE,…``, a file of them (YAML or JSON), or nothing.

    Raises:
        InputError: an unknown key, or a value that its key cannot have, one fault each (the nearest one is offered).
    """
    if not text:
        return {}
    if text.endswith(_SUFFIXES):
        return _from_file(text)
    return _typed(pairs_of(text), "--plan")


def plan_in(document: Any, where: str) -> ServingPlan:
    """The configuration that :meth:`ServingPlan.document` wrote.

    Raises:
        InputError: a key that is missing or unknown, or a value that its key cannot have.
    """
    if not isinstance(document, dict):
        raise fail(where, "", shown(document), "must be a mapping of the keys of a configuration to values")
    if missing := [Fault(where, key, "", "must be given") for key in KEYS if key not in document]:
        raise InputError(missing)
    return ServingPlan(**_typed(list(document.items()), where))


def yaml_text(plan: ServingPlan) -> str:
    """A file that :func:`read_plan` reads."""
    return yaml_of({"schema": SCHEMA, **plan.document()}, sort_keys=False)


def _from_file(path: str) -> dict[str, Any]:
    document = read_document(path)
    if not isinstance(document, dict):
        raise fail(path, "", document, "must be a mapping of keys to values")
    if document.get("schema", SCHEMA) != SCHEMA:
        raise fail(path, "schema", document["schema"], f"must be {SCHEMA}")
    return _typed([(key, value) for key, value in document.items() if key != "schema"], path)


def _typed(pairs: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    named = [(ALIASES.get(str(key).lower().replace("-", "_"), str(key)), value) for key, value in pairs]
    require_once([key for key, _ in named], where)
    given = {key: int(value) if _is_number(key, value) else value for key, value in named}
    if faults := [fault for key, value in given.items() if (fault := _fault(key, value, where))]:
        raise InputError(faults)
    return {key: given[key] for key in KEYS if key in given}


def _is_number(key: str, value: Any) -> bool:
    return _TYPES.get(key) is int and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12


def _fault(key: str, value: Any, where: str) -> Fault | None:
    if key not in KEYS:
        meant = nearest(key, [*KEYS, *ALIASES])
        known = "" if meant else f"; known: {', '.join(KEYS)}"
        return Fault(where, key, "", f"is not a key of a configuration{known}", meant)
    if _TYPES[key] is not int:
        return None if isinstance(value, str) else Fault(where, key, shown(value), "must be a word")
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST:
        return None
    return Fault(where, key, shown(value), f"must be a whole number from 1 to {_LARGEST:,}")

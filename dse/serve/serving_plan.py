"""A configuration that serves: engine, how the chips of a replica share the model, replicas, batch, chunk, formats.

Prompts and decodes share the chips (:class:`ServingPlan`), or have workers of their own (:class:`SplitPlan`), whose
keys begin with ``prefill.`` and ``decode.``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
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
        mode: ``aggregated``: prompts and decodes share the chips; ``prefill`` or ``decode``: of a :class:`SplitPlan`.
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
        drafts: tokens that are proposed for each request in a step; 0 without speculative decoding.
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
    drafts: int = 0

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
        left_out |= set() if self.drafts else {"drafts"}
        if self.expert == 1 and self.expert_tensor == self.tensor * self.attention_data:
            left_out |= {"expert", "expert_tensor"}
        return left_out

    def keys(self) -> dict[str, Any]:
        """What ``--plan`` takes."""
        return asdict(self)

    def document(self) -> dict[str, Any]:
        """The keys and values in JSON types."""
        return asdict(self)


KEYS = tuple(each.name for each in fields(ServingPlan))

COMMON = ("mode", "engine", "precision", "kv_precision", "drafts")
"""Keys that workers apart have in common."""

_SHAPE = ("tensor", "pipeline", "attention_data", "expert", "expert_tensor", "replicas")
PARTS = {"prefill": (*_SHAPE, "chunk"), "decode": (*_SHAPE, "batch")}
"""Keys of each kind of workers."""


@dataclass(frozen=True)
class SplitPlan:
    """A whole configuration with workers for prompts and workers for decodes; engine, formats, drafts are of both.

    Attributes:
        prefill: those for prompts; of its sizes ``chunk`` counts.
        decode: those for decodes; of its sizes ``batch`` counts.
    """

    prefill: ServingPlan
    decode: ServingPlan

    mode = "disaggregated"

    @property
    def engine(self) -> str:
        """Of all workers."""
        return self.decode.engine

    @property
    def precision(self) -> WeightFormat:
        """Of all workers."""
        return self.decode.precision

    @property
    def kv_precision(self) -> str:
        """Of all workers."""
        return self.decode.kv_precision

    @property
    def drafts(self) -> int:
        """Of the decode workers; the prefill workers compute prompts for what proposes them."""
        return self.decode.drafts

    @property
    def accelerators(self) -> int:
        """Of all workers."""
        return self.prefill.accelerators + self.decode.accelerators

    @property
    def groups(self) -> int:
        """Batches that decode at once."""
        return self.decode.groups

    def text(self) -> str:
        """The short form, which :func:`read_plan` reads."""
        left_out = {"drafts"} if not self.drafts else set()
        left_out |= {f"{part}.{key}" for part in PARTS for key in getattr(self, part).implied}
        return ",".join(f"{key}={value}" for key, value in self.keys().items() if key not in left_out)

    def keys(self) -> dict[str, Any]:
        """What ``--plan`` takes."""
        return {key: getattr(self, key) for key in COMMON} | {
            f"{part}.{key}": getattr(getattr(self, part), key) for part, keys in PARTS.items() for key in keys
        }

    def document(self) -> dict[str, Any]:
        """The keys and values in JSON types, those of each kind of workers in a mapping of their own."""
        parts = {part: {key: getattr(getattr(self, part), key) for key in keys} for part, keys in PARTS.items()}
        return {key: getattr(self, key) for key in COMMON} | parts


Plan = ServingPlan | SplitPlan


def split_plan(prefill: ServingPlan, decode: ServingPlan) -> SplitPlan:
    """The configuration of two kinds of workers, whose other sizes follow: a prompt, or a token of each request."""
    tokens = -(-decode.batch // decode.pipeline) * (1 + decode.drafts)
    return SplitPlan(
        replace(prefill, mode="prefill", batch=prefill.pipeline), replace(decode, mode="decode", chunk=tokens)
    )


def own_keys(fixed: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Of fixed keys, those that a kind of workers has, without its name; all for ``aggregated``."""
    if part == "aggregated":
        return {key: value for key, value in fixed.items() if "." not in key}
    named = {key.partition(".")[2]: value for key, value in fixed.items() if key.startswith(f"{part}.")}
    return named | {key: fixed[key] for key in COMMON if key in fixed and key != "mode"}


def with_mode(fixed: dict[str, Any], modes: Sequence[str]) -> dict[str, Any]:
    """The same with the mode that its keys are of, unless it is the only one of ``modes`` anyway.

    Raises:
        InputError: keys of both modes.
    """
    apart = [key for key in fixed if "." in key]
    together = [key for key in fixed if "." not in key and key not in COMMON]
    stated = fixed.get("mode", "disaggregated" if apart else "aggregated" if together else None)
    if stated == "aggregated" and apart:
        raise fail("--plan", apart[0], "", "must not be given with mode=aggregated")
    if stated == "disaggregated" and together:
        own = [f"{part}.{together[0]}" for part, keys in PARTS.items() if together[0] in keys]
        raise fail("--plan", together[0], "", f"must be {' or '.join(own)} with mode=disaggregated")
    return fixed if stated is None or [*modes] == [stated] else {"mode": stated} | fixed


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


def plan_in(document: Any, where: str) -> Plan:
    """The configuration that :meth:`ServingPlan.document` or :meth:`SplitPlan.document` wrote.

    Raises:
        InputError: a key that is missing or unknown, or a value that its key cannot have.
    """
    if not isinstance(document, dict):
        raise fail(where, "", shown(document), "must be a mapping of the keys of a configuration to values")
    given = dict(_flat(document))
    is_split = given.get("mode") == "disaggregated"
    needed = (*COMMON, *(f"{part}.{key}" for part, keys in PARTS.items() for key in keys)) if is_split else KEYS
    if missing := [Fault(where, key, "", "must be given") for key in needed if key not in {*given, "drafts"}]:
        raise InputError(missing)
    typed = _typed(list(given.items()), where)
    if not is_split:
        return ServingPlan(**typed)
    prefill, decode = (own_keys(typed, part) for part in PARTS)
    return split_plan(ServingPlan("prefill", **prefill, batch=1), ServingPlan("decode", **decode, chunk=1))


def yaml_text(plan: Plan) -> str:
    """A file that :func:`read_plan` reads."""
    return yaml_of({"schema": SCHEMA, **plan.document()}, sort_keys=False)


def _from_file(path: str) -> dict[str, Any]:
    document = read_document(path)
    if not isinstance(document, dict):
        raise fail(path, "", document, "must be a mapping of keys to values")
    if document.get("schema", SCHEMA) != SCHEMA:
        raise fail(path, "schema", document["schema"], f"must be {SCHEMA}")
    return _typed([(key, value) for key, value in _flat(document) if key != "schema"], path)


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys with values; those of a kind of workers with its name in front."""
    for key, value in document.items():
        if key in PARTS and isinstance(value, dict):
            yield from ((f"{key}.{inner}", of_inner) for inner, of_inner in value.items())
        else:
            yield key, value


def _typed(pairs: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    named = [(_named(str(key)), value) for key, value in pairs]
    require_once([key for key, _ in named], where)
    given = {key: int(value) if _is_number(key, value) else value for key, value in named}
    if faults := [fault for key, value in given.items() if (fault := _fault(key, value, where))]:
        raise InputError(faults)
    return {key: given[key] for key in _ALL if key in given}


_ALL = (*KEYS, *(f"{part}.{key}" for part, keys in PARTS.items() for key in keys))


def _named(key: str) -> str:
    part, dot, own = key.rpartition(".")
    return f"{part}{dot}{ALIASES.get(own.lower().replace('-', '_'), own)}"


def _type(key: str) -> Any:
    return _TYPES.get(key.rpartition(".")[2])


def _is_number(key: str, value: Any) -> bool:
    return _type(key) is int and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12


def _fault(key: str, value: Any, where: str) -> Fault | None:
    if key not in _ALL:
        meant = nearest(key, [*_ALL, *ALIASES])
        known = "" if meant else f"; known: {', '.join(_ALL)}"
        return Fault(where, key, "", f"is not a key of a configuration{known}", meant)
    if _type(key) is not int:
        return None if isinstance(value, str) else Fault(where, key, shown(value), "must be a word")
    least = 0 if key == "drafts" else 1
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _LARGEST:
        return None
    return Fault(where, key, shown(value), f"must be a whole number from {least} to {_LARGEST:,}")

"""The PyTorch profiler's JSON (Kineto): kernels, copies, launches, operators, modules, annotations, collectives.

The form is that of Chrome traces: an event is an object with ``ph``, ``cat``, ``name``, ``pid``, ``tid``, ``ts`` and
``dur`` in microseconds, and ``args``. Categories are those of libkineto's ``output_json.cpp``; profilers before 2021
wrote them with capitals. A kernel is joined with its launch by ``correlation``, and the launch with the innermost
operator around it on its thread: identifiers of operators alone are not enough, as older profiles give kernels others.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from dse.importer.profile.nesting import Nested, depths, first_around
from dse.importer.profile.profile import (
    COPY,
    EVENT_COLUMNS,
    FILL,
    KERNEL,
    NONE,
    Collectives,
    Columns,
    Integers,
    Mark,
    Operators,
    Profile,
    Texts,
    events_of,
    joined_rows,
    launch_remarks,
    taken,
)
from hardware.inputs import fail

ELEMENT_BYTES: Mapping[str, int] = {
    "float": 4, "c10::bfloat16": 2, "bfloat16": 2, "c10::half": 2, "half": 2, "double": 8, "long": 8, "long int": 8,
    "int": 4, "short": 2, "byte": 1, "char": 1, "signed char": 1, "unsigned char": 1, "bool": 1,
    "c10::float8_e4m3fn": 1, "float8_e4m3fn": 1, "c10::float8_e5m2": 1, "float8_e5m2": 1,
}  # fmt: skip
"""Bytes of an element, by what PyTorch calls its type, in small letters."""

_DEVICE_KINDS = {
    "kernel": KERNEL,
    "Kernel": KERNEL,
    "gpu_memcpy": COPY,
    "Memcpy": COPY,
    "gpu_memset": FILL,
    "Memset": FILL,
}
_STEP = "ProfilerStep"
_MODULE = "nn.Module: "
_COLLECTIVE_OPERATOR = "record_param_comms"
_COLLECTIVE_ANNOTATION = "nccl:"
_WAITS = frozenset({"wait", "barrier"})
"""What ``record_param_comms`` records, and what moves nothing."""

_GRAPH_LAUNCH = re.compile(r"(cuda|hip)GraphLaunch")
_MAX_EVENTS = 60_000_000


class KinetoEvents:
    """What is kept of the events of one file.

    Args:
        where: the file, for errors.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.texts = Texts()
        self.device = Columns(*EVENT_COLUMNS)
        self.launches = Columns("correlation", "thread", "start_ns", "is_graph")
        self.operators = Columns("thread", "start_ns", "end_ns", "name", "shapes", "types", "sequence", "forward")
        self.annotations = Columns("thread", "start_ns", "end_ns", "name")
        self.modules = Columns("thread", "start_ns", "end_ns", "name")
        self.collectives = Columns("operator", "name", "group", "group_size", "types", "in_bytes", "out_bytes")
        self.annotated = Columns("annotation", "name", "group", "group_size", "types", "in_bytes", "out_bytes")
        self.marks: list[Mark] = []
        self._threads: dict[Any, int] = {}
        self._forward_threads: dict[Any, int] = {}
        handlers: dict[str, Callable[[dict[str, Any], int, int], None]] = {
            "cpu_op": self._operator,
            "Operator": self._operator,
            "cuda_runtime": self._launch,
            "cuda_driver": self._launch,
            "Runtime": self._launch,
            "user_annotation": self._annotation,
            "gpu_user_annotation": self._device_annotation,
            "python_function": self._function,
        }
        self._handlers = handlers | dict.fromkeys(_DEVICE_KINDS, self._device_event)

    def read(self, events: Iterator[Any]) -> None:
        """Keep what matters of the events.

        Raises:
            InputError: an event without the fields of its category.
        """
        for count, event in enumerate(events):
            try:
                handler = self._handlers.get(event.get("cat"))
                if handler is None or event.get("ph") != "X":
                    continue
                start_ns, length_ns = _nanoseconds(event["ts"]), _nanoseconds(event.get("dur", 0))
                if length_ns < 0:
                    raise ValueError(length_ns)
                handler(event, start_ns, start_ns + length_ns)
            except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
                rule = "must be an event with a name, whole numbers in args, and ts and dur in µs, dur at least 0"
                raise fail(self.where, f"traceEvents.{count}", event, rule) from error
            if count > _MAX_EVENTS:
                raise fail(self.where, "traceEvents", "", f"has more than {_MAX_EVENTS:,} events")

    def _thread(self, event: Mapping[str, Any]) -> int:
        key = event.get("pid"), event.get("tid")
        number = self._threads.get(key)
        if number is None:
            number = self._threads[key] = len(self._threads)
        return number

    def _device_event(self, event: dict[str, Any], start_ns: int, end_ns: int) -> None:
        args = event.get("args") or {}
        device, stream = args.get("device", event.get("pid")), args.get("stream", event.get("tid"))
        self.device.append((
            _number(device), _number(stream), start_ns, end_ns, _DEVICE_KINDS[event["cat"]],
            self.texts.number(str(event["name"])), _number(args.get("correlation", NONE)),
        ))  # fmt: skip

    def _launch(self, event: dict[str, Any], start_ns: int, end_ns: int) -> None:
        correlation = (event.get("args") or {}).get("correlation")
        if correlation is not None:
            is_graph = _GRAPH_LAUNCH.match(event["name"]) is not None
            self.launches.append((_number(correlation), self._thread(event), start_ns, int(is_graph)))

    def _operator(self, event: dict[str, Any], start_ns: int, end_ns: int) -> None:
        args, name = event.get("args") or {}, str(event["name"])
        forward = args.get("Fwd thread id", 0)
        if name == _COLLECTIVE_OPERATOR and args.get("Collective name") not in (None, *_WAITS):
            self._collective(args)
        shapes, types = args.get("Input Dims"), args.get("Input type")
        self.operators.append((
            self._thread(event), start_ns, end_ns, self.texts.number(name),
            NONE if shapes is None else self.texts.number(json.dumps(shapes)),
            NONE if types is None else self.texts.number(json.dumps(types)),
            _number(args.get("Sequence number", NONE)), int(bool(forward)),
        ))  # fmt: skip

    def _collective(self, args: Mapping[str, Any]) -> None:
        """What ``record_param_comms`` states of the operator that is appended next."""
        element = str(args.get("dtype", ""))
        size = ELEMENT_BYTES.get(element.lower())
        group = str(args.get("Process Group Ranks") or args.get("Process Group Name", ""))
        self.collectives.append((
            len(self.operators), self.texts.number(str(args["Collective name"])), self.texts.number(group),
            _number(args.get("Group size", 0)), self.texts.number(element),
            *(NONE if size is None or key not in args else _number(args[key]) * size
              for key in ("In msg nelems", "Out msg nelems")),
        ))  # fmt: skip

    def _annotation(self, event: dict[str, Any], start_ns: int, end_ns: int) -> None:
        name, args = str(event["name"]), event.get("args") or {}
        if name.startswith(_STEP):
            self.marks.append(Mark(name, start_ns, end_ns))
            return
        if name.startswith(_COLLECTIVE_ANNOTATION):
            size = _bytes_of(args.get("Input Dims"), args.get("Input type"))
            kind = self.texts.number(name.removeprefix(_COLLECTIVE_ANNOTATION))
            self.annotated.append((len(self.annotations), kind, self.texts.number(""), 0, NONE, size, NONE))
        self.annotations.append((self._thread(event), start_ns, end_ns, self.texts.number(name)))

    def _device_annotation(self, event: dict[str, Any], start_ns: int, end_ns: int) -> None:
        name = str(event["name"])
        if name.startswith(_STEP):
            self.marks.append(Mark(name, start_ns, end_ns, True, _number(event.get("pid", 0))))

    def _function(self, event: dict[str, Any], start_ns: int, end_ns: int) -> None:
        name = str(event["name"])
        if name.startswith(_MODULE):
            number = self.texts.number(name.removeprefix(_MODULE))
            self.modules.append((self._thread(event), start_ns, end_ns, number))


def kineto_profile(kept: KinetoEvents, header: Mapping[str, Any]) -> Profile:
    """The profile of the events of a file and the other entries of its top level.

    Raises:
        InputError: nothing ran on a device.
    """
    device = kept.device.arrays()
    if not len(kept.device):
        rule = "has no kernels, copies or fills: profile with ProfilerActivity.CUDA"
        raise fail(kept.where, "traceEvents", "", rule)
    joined = _Joined(kept, device)
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    return Profile(
        path=kept.where,
        format="PyTorch profiler",
        texts=kept.texts.all(),
        events=events_of(device, **joined.columns()),
        operators=joined.operators,
        collectives=joined.collectives,
        marks=marks_of(kept.marks),
        rank=_whole(distributed.get("rank")),
        ranks=_whole(distributed.get("world_size")),
        device_names=_device_names(header.get("deviceProperties")),
        base_ns=_whole(header.get("baseTimeNanoseconds")) or 0,
        remarks=tuple(launch_remarks(joined.is_launched, joined.is_replay)),
    )


def marks_of(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Marks in their order; a step that is marked on several streams of a device is one, from the first to the last."""
    steps: dict[tuple[str, bool, int], Mark] = {}
    for mark in marks:
        key = mark.name, mark.on_device, mark.device
        known = steps.get(key, mark) if mark.on_device else mark
        whole = replace(mark, start_ns=min(known.start_ns, mark.start_ns), end_ns=max(known.end_ns, mark.end_ns))
        steps[key if mark.on_device else (*key[:2], len(steps))] = whole
    return tuple(sorted(steps.values(), key=lambda mark: (mark.start_ns, mark.on_device, mark.device)))


class _Joined:
    """The host's side of device events: the operator, layer, annotation and collective of each.

    Attributes:
        operators: those that launched something.
        collectives: all that were recorded.
    """

    def __init__(self, kept: KinetoEvents, device: Mapping[str, Integers]) -> None:
        launches, operators = kept.launches.arrays(), kept.operators.arrays()
        launch = joined_rows(launches["correlation"], device["correlation"])
        self.is_launched = (launch >= 0).astype(np.int64)
        self.is_replay = taken(launches["is_graph"], launch) == 1
        thread, start_ns = taken(launches["thread"], launch), taken(launches["start_ns"], launch)
        calls = Nested(operators["thread"], operators["start_ns"], operators["end_ns"])
        # Of a replayed graph only the launch of the whole is known, which no operator makes kernel by kernel.
        operator = np.where(self.is_replay, NONE, calls.around(thread, start_ns))
        annotation = _Ranges(kept.annotations.arrays())
        around = annotation.around(thread, start_ns)
        self.annotation = taken(annotation.name, around)
        self.layer = _layers(kept, operators, calls, operator, thread, start_ns)
        self.collectives, self.collective = _collectives(kept, calls, operator, annotation, around)
        used, place = np.unique(operator[operator >= 0], return_inverse=True)
        self.operators = Operators(*(operators[name][used] for name in ("name", "shapes", "types")))
        self.operator = np.full(len(operator), NONE, np.int64)
        self.operator[operator >= 0] = place

    def columns(self) -> dict[str, Integers]:
        """Those of :class:`Events` that come from the host."""
        names = ("operator", "layer", "annotation", "collective", "is_launched")
        return {name: getattr(self, name) for name in names}


class _Ranges(Nested):
    """Named ranges of threads."""

    def __init__(self, columns: Mapping[str, Integers]) -> None:
        super().__init__(columns["thread"], columns["start_ns"], columns["end_ns"])
        self.name, self.threads = columns["name"], np.unique(columns["thread"])


def _layers(
    kept: KinetoEvents,
    operators: Mapping[str, Integers],
    calls: Nested,
    operator: Integers,
    thread: Integers,
    start_ns: Integers,
) -> Integers:
    """The layer of each event: of the modules around its launch, or around the forward operator of a backward one."""
    modules = _Ranges(kept.modules.arrays())
    if not len(modules.name):
        return np.full(len(operator), NONE, np.int64)
    layer = layer_names(kept.texts, modules.name, modules.parents)

    def around(threads: Integers, moments_ns: Integers) -> Integers:
        # Some profilers know no thread of Python functions and put them all on one of their own.
        known = np.isin(threads, modules.threads)
        there = np.where(known, threads, modules.threads[0] if len(modules.threads) == 1 else threads)
        return taken(layer, modules.around(there, moments_ns))

    found = around(thread, start_ns)
    forward = _forward(operators, calls, operator)
    of_forward = around(taken(operators["thread"], forward), taken(operators["start_ns"], forward))
    return np.where((found < 0) & (forward >= 0), of_forward, found)


def layer_names(texts: Texts, names: Integers, above: Integers) -> Integers:
    """The layer of each module call: the outermost module of a class that the model has several of, else itself.

    Args:
        texts: names such as ``DecoderLayer_3``: the class and the number of the module.
        names: of the calls.
        above: the call around each; :data:`NONE` for the outermost.
    """
    every = texts.all()
    classes = {number: re.sub(r"_\d+$", "", every[number]) for number in np.unique(names).tolist()}
    several = {each for each, count in Counter(classes.values()).items() if count > 1}
    layers = np.full(len(names), NONE, np.int64)
    is_repeated = np.zeros(len(names), bool)
    # Callers first: a call begins no later than what it calls.
    for row in np.argsort(depths(above), kind="stable").tolist():
        caller = above[row]
        if caller >= 0 and is_repeated[caller]:
            layers[row], is_repeated[row] = layers[caller], True
        else:
            layers[row], is_repeated[row] = names[row], classes[int(names[row])] in several
    return layers


def _forward(operators: Mapping[str, Integers], calls: Nested, operator: Integers) -> Integers:
    """The forward operator of the backward one that launched an event, by autograd's sequence number."""
    is_backward = (operators["forward"] == 1) & (operators["sequence"] >= 0)
    rows = taken(first_around(calls.parents, is_backward), operator)
    is_forward = np.flatnonzero((operators["forward"] == 0) & (operators["sequence"] >= 0))
    sequence = np.where(rows >= 0, taken(operators["sequence"], rows), NONE)
    place = joined_rows(operators["sequence"][is_forward], sequence)
    return taken(is_forward, place)


def _collectives(
    kept: KinetoEvents, calls: Nested, operator: Integers, annotation: _Ranges, around: Integers
) -> tuple[Collectives, Integers]:
    """The collectives that were recorded, and the one of each event; of annotations where no operator states them."""
    names = ("name", "group", "group_size", "types", "in_bytes", "out_bytes")
    if len(kept.collectives):
        recorded, rows, nest = kept.collectives.arrays(), operator.copy(), calls
        owner = recorded.pop("operator")
    else:
        recorded, rows, nest = kept.annotated.arrays(), around.copy(), annotation
        owner = recorded.pop("annotation")
    own = joined_rows(owner, np.arange(len(nest.parents)))
    row = taken(own, taken(first_around(nest.parents, own >= 0), rows))
    return Collectives(**{name: recorded[name] for name in names}), row


def _nanoseconds(microseconds: int | str) -> int:
    """Whole nanoseconds of a number of JSON, which is text where it has a fraction."""
    if isinstance(microseconds, int):
        return 1000 * microseconds
    whole, _, fraction = microseconds.partition(".")
    if len(fraction) <= 3 and fraction.isdigit() and whole.isdigit():
        return 1000 * int(whole) + int(fraction.ljust(3, "0"))
    return int((1000 * Decimal(microseconds)).to_integral_value())


def _number(value: Any) -> int:
    return NONE if value is None else int(value)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _bytes_of(dims: Any, types: Any) -> int:
    """Bytes of the tensors of an annotation; :data:`NONE` where their sizes or types were not recorded."""
    if not isinstance(dims, list) or not isinstance(types, list):
        return NONE
    total = 0
    for shape, element in zip(dims, types, strict=False):
        size = ELEMENT_BYTES.get(str(element).lower())
        if shape and size is None:
            return NONE
        if shape:
            elements = 1
            for width in shape:
                elements *= int(width)
            total += elements * (size or 0)
    return total


def _device_names(properties: Any) -> dict[int, str]:
    if not isinstance(properties, list):
        return {}
    return {
        number: str(each.get("name", ""))
        for place, each in enumerate(properties)
        if isinstance(each, dict) and (number := _whole(each.get("id", place))) is not None
    }

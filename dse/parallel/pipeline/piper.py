"""Profiles in the JSON form of Piper (Tarnawski et al., NeurIPS 2021): one microbatch, by tensor parallelism.

Of each node the entry for tensor parallelism 1 is read; ``timePerSample`` is of forward and backward pass together,
``memoryUsageA`` what a microbatch in flight keeps, ``memoryUsageB`` what is always there.
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from dse.parallel.pipeline.problem import PipelineProblem
from dse.parallel.pipeline.profiled_graph import MAX_FIGURE, ProfiledGraph, ProfiledNode
from hardware.inputs import fail, validate

KEYS = frozenset({"nodes", "edges"})
"""What such a document has; of its machine nothing is read."""

_BACKWARD = 2 / 3
"""Of the time of both passes, as products have it: the form does not tell them apart."""

_Number = Annotated[float, Field(ge=0, le=MAX_FIGURE)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class _Choice(_Document):
    time: _Number = Field(alias="timePerSample")
    weights: _Number = Field(alias="parameterSize")
    activation_bytes: _Number = Field(default=0.0, alias="memoryUsageA")


class _Node(_Document):
    number: int = Field(alias="id")
    name: str = ""
    choices: dict[str, list[_Choice]] = Field(alias="TMPCs")


class _Edge(_Document):
    source: int = Field(alias="sourceId")
    target: int = Field(alias="destId")
    size: _Number = Field(alias="communicationCost")


class _File(_Document):
    microbatches: Annotated[int, Field(ge=1, le=1_000_000)] = Field(default=1, alias="maxBatchSize")
    nodes: list[_Node]
    edges: list[_Edge]


def read_piper(document: Any, path: str) -> ProfiledGraph:
    """The profile of a batch of ``maxBatchSize`` microbatches (or ``mbsInBatch``, as Piper's inputs also call it).

    Raises:
        InputError: something missing or negative, a node without an entry for tensor parallelism 1, or an edge of a
            node that is not there.
    """
    if isinstance(document, dict) and "mbsInBatch" in document:
        document = {"maxBatchSize": document["mbsInBatch"]} | document
    file = validate(_File, document, path)
    count, place = file.microbatches, dict[int, int]()
    nodes = []
    for number, node in enumerate(file.nodes):
        whole = node.choices.get("1")
        if not whole:
            raise fail(path, f"nodes.{number}.TMPCs", "", 'must have an entry "1", without tensor parallelism')
        if node.number in place:
            raise fail(path, f"nodes.{number}.id", str(node.number), "must be different nodes")
        place[node.number] = number
        time_s, first = whole[0].time * count, whole[0]
        nodes.append(
            ProfiledNode(
                str(node.number),
                node.name,
                time_s * (1 - _BACKWARD),
                time_s * _BACKWARD,
                round(first.weights),
                round(first.activation_bytes * count),
            )
        )
    for number, edge in enumerate(file.edges):
        for key, end in (("sourceId", edge.source), ("destId", edge.target)):
            if end not in place:
                raise fail(path, f"edges.{number}.{key}", str(end), "must be the id of a node")
    edges = tuple((place[each.source], place[each.target], round(each.size * count)) for each in file.edges)
    return ProfiledGraph(tuple(nodes), edges)


def piper_text(graph: ProfiledGraph, problem: PipelineProblem) -> str:
    """``graph`` in this form, for the devices and microbatches of ``problem``; bandwidth is that between servers."""
    count = problem.microbatches
    outgoing: dict[int, dict[str, float]] = {}
    incoming: dict[int, dict[str, float]] = {}
    for maker, taker, _ in graph.edges:
        outgoing.setdefault(maker, {})[str(taker)] = 0.0
        incoming.setdefault(taker, {})[str(maker)] = 0.0
    nodes = [
        {
            "id": number,
            "name": f"{node.name} {node.label}".strip(),
            "TMPCs": {
                "1": [
                    {
                        "id": "vanilla",
                        "timePerSample": (node.forward_s + node.backward_s) / count,
                        "parameterSize": node.weight_bytes,
                        "memoryUsageA": node.stash_bytes / count,
                        "memoryUsageB": node.weight_bytes * problem.state_factor,
                        "syncTimeFw": outgoing.get(number, {}),
                        "syncTimeBw": incoming.get(number, {}),
                    }
                ]
            },
        }
        for number, node in enumerate(graph.nodes)
    ]
    document = {
        "maxMemoryPerDevice": problem.memory_bytes,
        "maxDevices": problem.devices,
        "maxBatchSize": count,
        "mbsInBatch": count,
        "bandwidth": problem.network.bytes_per_s,
        "nodes": nodes,
        "edges": [
            {"sourceId": maker, "destId": taker, "communicationCost": size / count}
            for maker, taker, size in graph.edges
        ],
    }
    return json.dumps(document) + "\n"

"""A small campaign: layers scheduled by two methods."""

import json

LAYER = {
    "schema": "dse.schedule/1", "name": "layer", "tensor_cores": 2, "vector_cores": 2,
    "operators": [
        {"name": "a", "kind": "tensor", "single_s": 2e-4, "all_cores_s": 1e-4},
        {"name": "b", "kind": "vector", "single_s": 1e-4, "all_cores_s": 6e-5},
        {"name": "c", "kind": "fused", "single_s": 3e-4, "all_cores_s": 2e-4},
    ],
    "edges": [["a", "b"], ["a", "c"]],
}  # fmt: skip


def layer(cores):
    """A layer for a chip with that many cores of either kind."""
    return LAYER | {"name": f"{cores} cores", "tensor_cores": cores, "vector_cores": cores}


def write_layers(folder, cores=(1, 2, 3)):
    """The files of layers, by number of cores."""
    paths = {number: folder / f"layer-{number}.json" for number in cores}
    for number, path in paths.items():
        path.write_text(json.dumps(layer(number)))
    return paths


def campaign(paths, **changed):
    """A campaign over layers and methods, as JSON, which is YAML too."""
    document = {
        "schema": "dse.campaign/1",
        "name": "layers",
        "problem": "schedule",
        "axes": {"layer": [str(path) for path in paths.values()], "method": ["auto", "cp-sat"]},
        "choose": ["layer"],
    }
    return {key: value for key, value in (document | changed).items() if value is not None}


def write_campaign(folder, paths, name="campaign.yaml", **changed):
    path = folder / name
    path.write_text(json.dumps(campaign(paths, **changed)))
    return path

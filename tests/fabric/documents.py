"""Documents of small graphs and fabrics, as users write them."""

from importlib import resources

import yaml

FEED_FORWARD = {
    "schema": "dse.dataflow/1", "name": "feed-forward",
    "operators": [
        {"name": "input", "kind": "input", "elements": 2048},
        {"name": "up", "kind": "gemm", "m": 32, "k": 64, "n": 96, "weight_elements": 6240},
        {"name": "gelu", "kind": "gelu", "elements": 3072},
        {"name": "down", "kind": "gemm", "m": 32, "k": 96, "n": 64, "weight_elements": 6208},
        {"name": "residual", "kind": "add", "elements": 2048},
        {"name": "norm", "kind": "layer_norm", "elements": 2048, "row": 64, "weight_elements": 128},
        {"name": "output", "kind": "output", "elements": 2048},
    ],
    "edges": [
        ["input", "up", 2048], ["up", "gelu", 3072], ["gelu", "down", 3072], ["down", "residual", 2048],
        ["input", "residual", 2048], ["residual", "norm", 2048], ["norm", "output", 2048],
    ],
}  # fmt: skip


def fabric_document(rows=4, columns=5, tile=16):
    """Plasticine's fabric with another grid and another tile."""
    text = resources.files("hardware").joinpath("specs", "fabrics", "plasticine-8x16.yaml").read_text()
    document = yaml.safe_load(text)
    document["name"] = "small"
    document["grid"]["rows"]["value"] = rows
    document["grid"]["columns"]["value"] = columns
    document["numbers"]["tile"]["value"] = tile
    return document

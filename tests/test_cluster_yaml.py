"""The cluster file is valid by Ray's own schema, offline."""

from pathlib import Path

import yaml


def test_cluster_file_passes_rays_own_schema():
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((Path(__file__).parents[1] / "cluster.yaml").read_text())
    prepared = prepare_config(config | {"cluster_synced_files": []})
    validate_config(prepared)
    assert prepared["head_node_type"] in prepared["available_node_types"]

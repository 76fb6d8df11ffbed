"""From Python: the schedule of four attention heads on more and more cores, checked, and the last one saved."""

import dse

HEADS = [{"name": f"head{number}", "kind": "fused", "single_s": 2e-4, "all_cores_s": 1.5e-4} for number in range(4)]
LAYER = {
    "schema": "dse.schedule/1",
    "name": "layer",
    "operators": [{"name": "project", "kind": "tensor", "single_s": 2e-4, "all_cores_s": 1e-4}, *HEADS],
    "edges": [["project", head["name"]] for head in HEADS],
}

for cores in (1, 2, 4):
    answer = dse.schedule(LAYER | {"tensor_cores": cores, "vector_cores": cores})
    assert answer.check() == []
    print(cores, answer.status, f"{answer.value * 1e6:.0f} µs", answer.solution["operators"]["head3"]["cores"])

answer.save("runs/layer")

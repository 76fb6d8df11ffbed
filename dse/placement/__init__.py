"""Device placement (paper section 5): pipeline stages × data-parallel pipelines × tensor-parallel width."""

COMMAND = "place"
SUMMARY = "Place a layer graph: pipeline stages × data × tensor parallelism."
RANK = 2

"""Auto-MAP (2020): its tables of plans next to ours."""

SUMMARY = "Parallel plans on HLO: sharding of T5 and VGG-19 and pipelines (Auto-MAP, 2020)."

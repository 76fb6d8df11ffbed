"""Auto-MAP (2020): its tables of plans beside ours."""

SUMMARY = "Parallel plans on HLO: which dimensions of T5 and VGG-19 are split (Auto-MAP, 2020)."

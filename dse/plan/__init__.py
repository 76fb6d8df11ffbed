"""Training plans on real machines: what a plan costs, whether it fits, and which plan is best."""

COMMAND = "plan"
SUMMARY = "Find the fastest training plan for a model on a real machine."
RANK = 20

"""Training plans on real machines: what a plan costs, whether it fits, and which plan is best."""

COMMAND = "plan"
SUMMARY = "Find the best training plan of a model on a real machine."
RANK = 20

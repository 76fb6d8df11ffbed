"""What a given training plan costs, and whether it fits: :mod:`dse.plan` with parts of the plan fixed."""

COMMAND = "predict"
SUMMARY = "Predict the step time and memory of a training plan, and its distance from the best plan."
RANK = 21

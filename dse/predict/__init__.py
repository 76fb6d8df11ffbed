"""What a given training plan costs, and whether it fits: :mod:`dse.plan` with parts of the plan fixed."""

COMMAND = "predict"
SUMMARY = "Predict step time and memory of a training plan, and how far it is from the best."
RANK = 21

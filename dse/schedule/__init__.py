"""Operator schedule of one layer on the cores of one accelerator (paper section 4): minimise the makespan."""

COMMAND = "schedule"
SUMMARY = "Schedule the operators of one layer on the cores of one accelerator."
RANK = 3

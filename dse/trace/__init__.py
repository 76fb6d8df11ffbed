"""Where the time of a recorded step goes: profiles of one or more ranks, divided into what hides and what does not."""

COMMAND = "trace"
SUMMARY = "Show where the time of a recorded training or inference step goes."
RANK = 23

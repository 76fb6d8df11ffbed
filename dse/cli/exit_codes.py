"""What the program says to its caller, beside the codes that results have."""

EXIT_BAD_INPUT = 2
EXIT_INTERNAL_FAULT = 70
EXIT_INTERRUPTED = 130

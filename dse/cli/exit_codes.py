"""Exit codes of the program, in addition to those of results."""

EXIT_BAD_INPUT = 2
EXIT_INTERNAL_FAULT = 70
EXIT_INTERRUPTED = 130

"""Where work is spread: thin Ray shells around plain functions and objects of the lower floors."""

"""Everything that a user may name as input, and the zoo of networks."""

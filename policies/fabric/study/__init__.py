"""How accurate models are on graphs that they have not learned from."""

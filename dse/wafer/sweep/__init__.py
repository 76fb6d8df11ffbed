"""Many wafers or weights at once, and the front of cost, tiles and memory."""

"""How placements are found; each module holds one method or one step of it."""

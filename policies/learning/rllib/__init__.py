"""What learners that use RLlib (new API stack) share."""

"""What learners that use RLlib (new API stack) share."""

import logging

import ray  # sets the levels of its loggers

# What they say to developers is kept off the screen of users.
logging.getLogger(ray.__name__).setLevel(logging.ERROR)
logging.getLogger("ray.rllib").setLevel(logging.ERROR)

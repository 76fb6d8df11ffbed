"""Co-search of accelerator architecture and device placement (PHAZE): the main job."""

COMMAND = "codesign"
SUMMARY = "Find the best accelerator and placement for a training job, with a proof."
RANK = 1

"""Co-search of accelerator architecture and device placement (PHAZE): the main job."""

COMMAND = "codesign"
SUMMARY = "Find and prove the best accelerator and placement for a training job."
RANK = 1

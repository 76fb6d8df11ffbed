"""Co-search of accelerator architecture and device placement (PHAZE): the main job."""

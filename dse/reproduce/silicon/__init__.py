"""Published figures of silicon next to ours: dies, peaks, power, bills of materials, and LLMCompass's area model."""

SUMMARY = "Silicon of real chips: areas, power and costs as published, and LLMCompass's area model (ISCA 2024)."

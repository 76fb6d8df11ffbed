"""What this is: its version, and what it is installed as. Everything may import it; it imports nothing."""

VERSION = "0.1.0"

DISTRIBUTION = "accelerator-dse"
"""The name to install it by; the name on the package index that equals the import name is another project's."""

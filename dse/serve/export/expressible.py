"""What launchers share: refusals, and values that a script takes from its environment."""

ENVIRONMENT = "$"
"""A value that begins so is the environment's."""


class NotExpressibleError(Exception):
    """An engine lacks what the configuration has; the message says what."""


def refuse(engine: str, *conditions: tuple[bool, str]) -> None:
    """Refuse a configuration by the conditions that hold, of pairs of one and what must be.

    Raises:
        NotExpressibleError: one holds.
    """
    broken = [rule for holds, rule in conditions if holds]
    if broken:
        raise NotExpressibleError(f"{engine}: {'; '.join(broken)}")

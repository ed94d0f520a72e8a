"""Tell how close each fused operator of FlagGems comes to what the machine can do."""

__version__ = "0.1.0"


class Refusal(Exception):
    """Say why an input cannot be used; at the edge it becomes exit code 2.

    The message names the subject, what was expected, what was found and what to do.
    """

"""What the product raises when it cannot use an input."""

from __future__ import annotations


class Refusal(Exception):
    """Say why an input cannot be used; at the edge it becomes exit code 2.

    The message names the subject, what was expected, what was found and what to do.
    """

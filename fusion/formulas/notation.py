"""Write pieces of formulas, with as many parentheses as they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

# How tightly a written form binds, from a sum to something that needs no parentheses.
SUM, PRODUCT, ATOM = 1, 2, 3


@dataclass(frozen=True)
class Written:
    """Hold a piece of a formula as text, and how tightly it binds."""

    text: str
    binds: int = ATOM

    @property
    def atom(self) -> str:
        """Return the text as it can stand before a dot or a bracket."""
        return self.text if self.binds >= ATOM else f"({self.text})"

    @property
    def factor(self) -> str:
        """Return the text as it can stand in a product."""
        return self.text if self.binds >= PRODUCT else f"({self.text})"

    @property
    def term(self) -> str:
        """Return the text as it can stand in a sum."""
        return self.text if self.binds >= SUM else f"({self.text})"


def call(name: str) -> Callable[..., Written]:
    """Write a call by that name."""
    return lambda *args: Written(f"{name}({', '.join(arg.text for arg in args)})")


def method(text: str, binds: int = ATOM) -> Callable[..., Written]:
    """Write a template: {0} is the first argument as an atom, {f0} factor, {s0} term, {t0} text."""

    def written(*args: Written) -> Written:
        named = {
            f"{kind}{index}": value
            for index, arg in enumerate(args)
            for kind, value in (("f", arg.factor), ("s", arg.term), ("t", arg.text))
        }
        return Written(text.format(*[arg.atom for arg in args], **named), binds)

    return written

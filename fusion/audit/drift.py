"""Say how another revision of FlagGems differs from what the formulas know, from its text alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from fusion import suite
from fusion.formulas import Catalogue, Formula
from fusion.suite import Suite

_EXPORTS = Path("src/flag_gems/fused/__init__.py")


@dataclass(frozen=True)
class Change:
    """Name one difference. Kinds: new, gone, renamed, arguments."""

    kind: str
    operator: str
    told: str


def drift(catalogue: Catalogue, flaggems: Path, known: Iterable[Change] = ()) -> tuple[Change, ...]:
    """Compare the catalogue with a checkout; what text cannot tell is not claimed.

    ``known`` are the differences of the checkout in use, which are not told again.

    An operator is *gone* without a benchmark, *renamed* where only an alias has one; an export
    without a formula is *new*; *arguments* change where the kernel's function has lost a parameter
    that the formula binds.
    """
    held = suite.scan(flaggems, embedded=False, version="")
    unknown = [name for name in exports(flaggems) if catalogue.find(name) is None]
    changes = [Change("new", name, "exported without a formula") for name in unknown]
    for formula in catalogue.formulas.values():
        placed = _placed(formula, held)
        changes += placed
        if not any(change.kind == "gone" for change in placed):
            changes += _bound(formula, flaggems)
    before = set(known)
    return tuple(change for change in changes if change not in before)


def table(changes: Iterable[Change]) -> str:
    """Write a line per difference, by kind."""
    lines = [(each.kind, each.operator, each.told) for each in changes]
    if not lines:
        return "No difference: every formula finds its benchmark and its arguments."
    return tabulate(lines, headers=["change", "operator", "what"], disable_numparse=True)


def exports(flaggems: Path) -> list[str]:
    """List what ``flag_gems.fused`` exports, none where that file is absent."""
    path = flaggems / _EXPORTS
    if not path.is_file():
        return []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, (ast.List, ast.Tuple)):
            continue
        if any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return [str(getattr(item, "value", "")) for item in node.value.elts]
    return []


def parameters(text: str, names: Iterable[str]) -> tuple[str, ...] | None:
    """Return the parameters of the first function of one of these names, None where none is."""
    for name in names:
        found = re.search(rf"^def {re.escape(name)}\((.*?)\)(?:\s*->[^:]*)?:", text, re.M | re.S)
        if found:
            arguments = ast.parse(f"def f({found[1]}): pass").body[0].args  # type: ignore[attr-defined]
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return tuple(argument.arg for argument in every)
    return None


def _placed(formula: Formula, held: Suite) -> list[Change]:
    found = held.find(formula.names, formula.tests)
    if found is None:
        return [Change("gone", formula.operator, "no benchmark of this name or its aliases")]
    if held.find([formula.operator]) is None and found.marker not in (None, *formula.aliases):
        return [Change("renamed", formula.operator, f"its benchmark is now {found.marker}")]
    return []


def _bound(formula: Formula, flaggems: Path) -> list[Change]:
    if formula.source is None:
        return []
    path = flaggems / formula.source
    if not path.is_file():
        return [Change("renamed", formula.operator, f"{formula.source} is no longer there")]
    known = parameters(path.read_text(encoding="utf-8"), formula.names)
    if known is None:
        return [Change("renamed", formula.operator, f"no function of its name in {formula.source}")]
    lost = [item.name for item in formula.inputs if item.name not in known]
    told = f"{', '.join(lost)} not among {', '.join(known)}"
    return [Change("arguments", formula.operator, told)] if lost else []

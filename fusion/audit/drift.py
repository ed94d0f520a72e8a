"""Say how another revision of FlagGems differs from what the formulas know, from its text alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tabulate import tabulate

from fusion import suite
from fusion.audit import signature
from fusion.audit.signature import Signature
from fusion.errors import Refusal
from fusion.formulas.catalogue import Catalogue, Formula
from fusion.suite import Benchmark, Suite

_FUSED = "src/flag_gems/fused"
_OP_NAME = re.compile(r"\bop_name\s*=\s*[\"'](\w+)[\"']")


class DriftError(Refusal):
    """Refuse a checkout whose text cannot be read."""


@dataclass(frozen=True)
class Change:
    """Name one difference. Kinds: new, gone, renamed, arguments.

    ``subject`` is what differs, without the surroundings that ``told`` also shows.
    """

    kind: str
    operator: str
    told: str
    subject: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Tell which difference this is, in whatever checkout."""
        return self.kind, self.operator, self.subject or self.told


@dataclass(frozen=True)
class _Checkout:
    root: Path
    held: Suite
    exported: tuple[str, ...]
    modules: Mapping[str, str]  # file of each function that flag_gems.fused imports

    def text(self, file: str) -> str:
        return (self.root / file).read_text(encoding="utf-8", errors="replace")

    def has(self, file: str) -> bool:
        return (self.root / file).is_file()


def drift(catalogue: Catalogue, flaggems: Path, known: Iterable[Change] = ()) -> tuple[Change, ...]:
    """Compare the catalogue with a checkout; what text cannot tell is not claimed.

    ``known`` are the differences of the checkout in use, which are not told again.

    An operator is *gone* without a benchmark. It is *renamed* where only an alias has one, where
    its benchmark records another name, or where its kernel is elsewhere. An export without a
    formula is *new*. *arguments* change where the kernel's function lost a parameter that the
    formula binds, or has it at another position. Raise DriftError for exports that are no Python.
    """
    checkout = _read(flaggems)
    changes = [_new(name, checkout) for name in checkout.exported if catalogue.find(name) is None]
    for formula in catalogue.formulas.values():
        changes += _changes(formula, checkout)
    before = {change.key for change in known}
    return tuple(change for change in changes if change.key not in before)


def table(changes: Iterable[Change]) -> str:
    """Write a line per difference, by kind."""
    lines = [(each.kind, each.operator, each.told) for each in changes]
    if not lines:
        return "No difference: every formula finds its benchmark and its arguments."
    return tabulate(lines, headers=["change", "operator", "what"], disable_numparse=True)


def exports(flaggems: Path) -> list[str]:
    """List what ``flag_gems.fused`` exports, none where that file is absent."""
    names: dict[str, None] = {}
    for node in _fused(flaggems):
        if isinstance(node, (ast.Assign, ast.AugAssign)) and _is_all(node):
            items = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else []
            names |= {str(item.value): None for item in items if isinstance(item, ast.Constant)}
    return list(names)


def _read(flaggems: Path) -> _Checkout:
    held = suite.scan(flaggems, embedded=False, version="")
    return _Checkout(flaggems, held, tuple(exports(flaggems)), _modules(flaggems))


def _fused(flaggems: Path) -> list[ast.stmt]:
    path = flaggems / _FUSED / "__init__.py"
    try:
        return ast.parse(path.read_bytes()).body if path.is_file() else []
    except (OSError, SyntaxError, ValueError) as error:
        raise DriftError(f"{path}: expected the module's text, found: {error}") from error


def _is_all(node: ast.Assign | ast.AugAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _modules(flaggems: Path) -> dict[str, str]:
    return {
        alias.asname or alias.name: _file(flaggems, node.module)
        for node in _fused(flaggems)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _file(flaggems: Path, module: str) -> str:
    path = f"{_FUSED}/{module.removeprefix('flag_gems.fused.').replace('.', '/')}"
    return f"{path}/__init__.py" if (flaggems / path).is_dir() else f"{path}.py"


def _new(name: str, checkout: _Checkout) -> Change:
    found = checkout.held.find([name])
    where = f"its benchmark is {found.files[0]}" if found else "no benchmark has its name"
    return Change("new", name, f"exported without a formula; {where}", subject="exported")


def _changes(formula: Formula, checkout: _Checkout) -> list[Change]:
    found = checkout.held.find(formula.names, formula.tests)
    if found is None:
        return [Change("gone", formula.operator, "no benchmark of this name or its aliases")]
    renamed = _renamed(formula, found, checkout) + _recorded(formula, found, checkout)
    file, moved = _kernel(formula, checkout)
    return renamed + moved + (_bound(formula, file, checkout) if file else [])


def _renamed(formula: Formula, found: Benchmark, checkout: _Checkout) -> list[Change]:
    if checkout.held.find([formula.operator]) is not None:
        return []
    name = found.marker or ", ".join(found.files)
    return [Change("renamed", formula.operator, f"its benchmark is found as {name}")]


def _recorded(formula: Formula, found: Benchmark, checkout: _Checkout) -> list[Change]:
    """Look for names of its record, where the benchmark spells them out in files of its own."""
    if not _has_files_to_itself(found, checkout.held):
        return []
    spelled = {name for file in found.files for name in _OP_NAME.findall(checkout.text(file))}
    if not spelled or spelled & set(formula.names):
        return []
    names = ", ".join(sorted(spelled))
    return [Change("renamed", formula.operator, f"its benchmark records it as {names}")]


def _has_files_to_itself(found: Benchmark, held: Suite) -> bool:
    markers = {
        marker for file, _, names in held.functions if file in found.files for marker in names
    }
    return markers - suite.STEERING_MARKERS <= {found.marker}


def _kernel(formula: Formula, checkout: _Checkout) -> tuple[str | None, list[Change]]:
    """Return the kernel's file, and the change where it is not the one that the formula names."""
    if formula.source is None or checkout.has(formula.source):
        return formula.source, []
    exported = (checkout.modules[name] for name in formula.names if name in checkout.modules)
    file = next(filter(checkout.has, exported), None)
    told = f"{formula.source} is no longer there" + (f"; now in {file}" if file else "")
    return file, [Change("renamed", formula.operator, told)]


def _bound(formula: Formula, file: str, checkout: _Checkout) -> list[Change]:
    known = signature.find(checkout.text(file), formula.names)
    if known is None:
        return [Change("renamed", formula.operator, f"no function of its name in {file}")]
    return _lost(formula, known) + _shifted(formula, known)


def _lost(formula: Formula, known: Signature) -> list[Change]:
    lost = [item.name for item in formula.inputs if item.name not in known.names]
    if not lost or known.is_open:
        return []
    subject = f"{', '.join(lost)} not among"
    told = f"{subject} {', '.join(known.names) or 'no parameters'}"
    return [Change("arguments", formula.operator, told, subject)]


def _shifted(formula: Formula, known: Signature) -> list[Change]:
    """Compare positions: a benchmark that passes them in order would bind another argument."""
    places = {name: place for place, name in enumerate(known.positional)}
    told = [
        f"{item.name} at {places[item.name]}, expected at {item.position}"
        for item in formula.inputs
        if item.position is not None and places.get(item.name, item.position) != item.position
    ]
    return [Change("arguments", formula.operator, "; ".join(told))] if told else []

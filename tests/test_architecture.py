"""The house: which package may import which, and what runs in the child."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fusion"
GROUND = {"errors", "text", "files", "yamlfile", "stats"}
# Package or ground module -> what it may import of the product, beside itself.
ALLOWED = {
    "errors": set(),
    "text": set(),
    "files": {"errors", "text"},
    "yamlfile": {"errors", "text"},
    "stats": set(),
    "formulas": {"errors", "text", "yamlfile"},
    "machine": {"errors", "text", "files", "stats"},
    "suite": {"errors", "text", "files"},
    "store": {"errors", "text", "files", "machine"},
    "plan": GROUND | {"formulas", "machine", "suite", "store"},
    "run": GROUND | {"formulas", "machine", "store", "plan"},
    "results": GROUND | {"machine", "store", "plan"},
    "audit": GROUND | {"formulas", "suite"},
    "show": GROUND | {"formulas", "machine", "suite", "store", "plan", "results"},
    "commands": GROUND
    | {"formulas", "machine", "suite", "store", "plan", "run", "results", "audit", "show"},
}
HOUSE = [name for name in ALLOWED if name in GROUND or (PACKAGE / name).is_dir()]
CHILD = (
    "__init__",
    "errors",
    "text",
    "yamlfile",
    "contract",
    "formulas/__init__",
    "formulas/tensors",
    "formulas/notation",
    "formulas/vocabulary",
    "formulas/expression",
    "formulas/catalogue",
    "plugin",
)


def sources(package: str) -> list[Path]:
    """List the files of a package, or that of a ground module."""
    module = PACKAGE / f"{package}.py"
    return [module] if module.exists() else sorted((PACKAGE / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in PACKAGE.rglob("*.py")}


def imports(path: Path) -> set[str]:
    """List the modules that a file imports, wherever in it, by their full names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # The embedded suite imports beside itself as FlagGems' does; it knows nothing else.
            module = node.module or "" if node.level == 0 else "fusion.suite.embedded"
            names |= {
                full if (full := f"{module}.{alias.name}") in MODULES else module
                for alias in node.names
            }
    return names


def packages(path: Path) -> set[str]:
    """List the packages and ground modules of the product that a file imports."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("fusion.")}
    return names & set(HOUSE)


@pytest.mark.parametrize("package", HOUSE)
def test_packages_import_what_the_table_allows(package):
    """No package imports one that it must not know."""
    for path in sources(package):
        assert packages(path) - {package} <= ALLOWED[package], path.relative_to(ROOT)


@pytest.mark.parametrize("package", HOUSE)
def test_modules_of_a_package_import_in_no_circle(package):
    """The files of a package have an order in which each imports earlier ones only."""
    waiting = {
        module_name(path): {name for name in imports(path) if name.startswith(f"fusion.{package}.")}
        for path in sources(package)
    }
    while ready := {name for name, needed in waiting.items() if not needed & set(waiting)}:
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    assert not waiting


def test_rooms_and_arrows(capsys):
    """Every arrow between packages has one direction; the count is printed."""
    arrows = Counter(
        (package, other)
        for package in HOUSE
        for path in sources(package)
        for other in packages(path) - {package}
    )
    assert not [pair for pair in arrows if pair[::-1] in arrows]
    files = sum(len(sources(package)) for package in HOUSE)
    with capsys.disabled():
        print(
            f"\n{len(HOUSE)} packages and ground modules, {len(arrows)} arrows between them; "
            f"{files} files, {sum(arrows.values())} imports across"
        )


def test_child_imports_the_standard_library_yaml_and_pytest_alone():
    """What runs in the child needs nothing that the child's Python may lack."""
    allowed = set(sys.stdlib_module_names) | {"yaml", "pytest", "fusion"}
    for name in CHILD:
        used = imports(PACKAGE / f"{name}.py")
        assert {module.split(".")[0] for module in used} <= allowed, name
        own = {module.removeprefix("fusion.").replace(".", "/") for module in used}
        assert {module for module in own if f"fusion.{module}".replace("/", ".") in MODULES} <= set(
            CHILD
        ), name


def test_only_the_tasks_import_invoke():
    """The library does not know how it is called."""
    users = [
        path.name
        for path in [*PACKAGE.rglob("*.py"), ROOT / "tasks.py"]
        if "invoke" in imports(path)
    ]
    assert users == ["tasks.py"]


@pytest.mark.parametrize("name", CHILD)
def test_child_is_written_for_the_oldest_python_of_a_child(name):
    """What runs in the child has the grammar of Python 3.9 and evaluates no annotation."""
    text = (PACKAGE / f"{name}.py").read_text()
    nodes = list(ast.walk(ast.parse(text, feature_version=(3, 9))))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    assert not functions or "from __future__ import annotations" in text
    words = {
        keyword.arg for node in nodes if isinstance(node, ast.Call) for keyword in node.keywords
    }
    assert not words & {"slots", "kw_only", "strict"}

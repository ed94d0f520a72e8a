"""The direction of imports, and what runs in the child, are part of the design."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fusion"
# Each layer may import those before it and its own.
LAYERS = (
    ("errors", "text"),
    ("files", "yamlfile"),
    ("armcores", "ceilings", "contract", "cpulist", "state", "stopping", "locks"),
    ("machine", "tensors", "topology", "written"),
    ("vocabulary",),
    ("expression", "cases"),
    ("formulas", "markdown", "binding"),
    ("numa", "targets", "suite", "workspace", "journal", "plugin"),
    ("settings", "command", "examination"),
    ("plan", "doctor"),
    ("records", "estimate"),
    ("outcome",),
    ("process", "repeats", "spread"),
    ("runner", "rows", "calibration"),
    ("report", "publish"),
    ("results",),
    ("history", "merge"),
    ("terminal",),
    ("lookup", "export", "comparison"),
    ("page",),
    ("session",),
    ("cli", "live"),
    ("progress",),
)
# The proof of the formulas has an order of its own.
APART = {"audit"}
CHILD = (
    "__init__",
    "contract",
    "errors",
    "text",
    "yamlfile",
    "tensors",
    "written",
    "vocabulary",
    "expression",
    "formulas",
    "plugin",
)


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "fusion":
            found |= {f"fusion.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def own(path: Path) -> set[str]:
    names = {name.split(".")[1] for name in imports(path) if name.startswith("fusion.")}
    return {name for name in names if files(name)}


def files(name: str) -> list[Path]:
    """List the file of a module, or those of a package that has a layer."""
    module = PACKAGE / f"{name}.py"
    return [module] if module.exists() else sorted((PACKAGE / name).glob("*.py"))


def level(name: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if name in layer)


@pytest.mark.parametrize("name", [name for layer in LAYERS for name in layer])
def test_modules_import_from_the_left_only(name):
    """No module imports one that lies further right on the way to the report."""
    imported = set().union(*map(own, files(name)))
    assert {other for other in imported if level(other) > level(name)} == set()


def test_every_module_has_its_layer():
    """A new module is placed in the architecture before it is used."""
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - APART
    assert modules | packages == {name for layer in LAYERS for name in layer}


def test_report_side_knows_nothing_of_running():
    """A report is built without what starts children, pins them or reads FlagGems."""
    for name in ("records", "outcome", "rows", "report", "publish"):
        assert not own(PACKAGE / f"{name}.py") & {"runner", "process", "workspace", "plugin"}


def test_child_imports_the_standard_library_yaml_and_pytest_alone():
    """What runs in the child needs nothing that the child's Python may lack."""
    allowed = set(sys.stdlib_module_names) | {"yaml", "pytest", "fusion"}
    for name in CHILD:
        path = PACKAGE / f"{name}.py"
        assert {found.split(".")[0] for found in imports(path)} <= allowed, name
        assert own(path) <= set(CHILD), name


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

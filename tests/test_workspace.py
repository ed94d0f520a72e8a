"""Suite, formulas, targets and Python are found where they are, or refused by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fusion import workspace
from fusion.workspace import WorkspaceError

PATH = {"PATH": "/usr/bin:/bin"}


def checkout(folder, formulas=False):
    (folder / "benchmark").mkdir(parents=True)
    (folder / "benchmark" / "test_x.py").write_text("")
    if formulas:
        (folder / "benchmark" / "fusion_metrics_formulas.yaml").write_text("")
    return folder


def script(folder, text):
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_without_flaggems_the_embedded_suite_runs_and_says_why():
    """No checkout at all means the embedded suite, this Python and the project's own files."""
    found = workspace.locate({})
    assert (found.suite, found.embedded) == (workspace.EMBEDDED, True)
    assert "neither --flaggems nor TRITON_REPO_DIR" in found.why
    assert found.python == sys.executable
    assert found.formulas.name == "fusion_metrics_formulas.yaml"
    assert found.formulas.is_file()
    assert found.targets.is_file()


def test_checkout_below_triton_repo_dir(tmp_path):
    """$TRITON_REPO_DIR/FlagGems is the suite where it exists."""
    suite = checkout(tmp_path / "FlagGems")
    found = workspace.locate({"TRITON_REPO_DIR": str(tmp_path)})
    assert (found.suite, found.embedded, found.why) == (suite, False, "TRITON_REPO_DIR")


def test_triton_repo_dir_may_be_the_checkout_itself(tmp_path):
    """A folder that holds benchmark/ is taken for the checkout."""
    suite = checkout(tmp_path / "anything")
    assert workspace.locate({"TRITON_REPO_DIR": str(suite)}).suite == suite


def test_triton_repo_dir_without_a_checkout_runs_the_embedded_suite(tmp_path):
    """A folder without FlagGems is no error; the reason names it."""
    found = workspace.locate({"TRITON_REPO_DIR": str(tmp_path)})
    assert found.embedded
    assert str(tmp_path) in found.why


def test_option_comes_before_the_environment(tmp_path, monkeypatch):
    """--flaggems wins, and may be relative to the current folder."""
    checkout(tmp_path / "FlagGems")
    mine = checkout(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    found = workspace.locate({"TRITON_REPO_DIR": str(tmp_path)}, flaggems="mine")
    assert (found.suite, found.why) == (mine, "--flaggems")


@pytest.mark.parametrize(
    ("environ", "flaggems", "told"),
    [
        ({}, "{}/nowhere", "--flaggems .*nowhere: .*found no such folder"),
        ({}, "{}/empty", r"--flaggems .*empty: .*found no benchmark/test_\*\.py"),
        ({"TRITON_REPO_DIR": "{}/nowhere"}, None, "TRITON_REPO_DIR: expected a folder"),
        ({"TRITON_REPO_DIR": "{}"}, None, r"TRITON_REPO_DIR/FlagGems .*no benchmark/test_\*"),
    ],
)
def test_checkout_without_benchmarks_is_refused(tmp_path, environ, flaggems, told):
    """A place that was named and holds no benchmark is an error, never passed over."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "FlagGems" / "benchmark").mkdir(parents=True)
    environ = {key: value.format(tmp_path) for key, value in environ.items()}
    with pytest.raises(WorkspaceError, match=told):
        workspace.locate(environ, flaggems=flaggems and flaggems.format(tmp_path))


def test_formulas_of_flaggems_come_first(tmp_path):
    """FlagGems' own formula file is the truth where it exists, else the project's."""
    suite = checkout(tmp_path / "FlagGems", formulas=True)
    own = suite / "benchmark" / "fusion_metrics_formulas.yaml"
    environ = {"TRITON_REPO_DIR": str(tmp_path)}
    assert workspace.formula_file(environ) == own
    own.unlink()
    assert workspace.formula_file(environ) == workspace.data_file("fusion_metrics_formulas.yaml")
    assert workspace.formula_file({}) == workspace.data_file("fusion_metrics_formulas.yaml")


def test_targets_file_must_exist(tmp_path):
    """A targets file that was named is taken from where it is, or refused."""
    path = tmp_path / "targets.yaml"
    with pytest.raises(WorkspaceError, match="--targets: expected an existing file"):
        workspace.locate({}, targets=str(path))
    path.write_text("")
    assert workspace.locate({}, targets=str(path)).targets == path


def test_absent_data_file_is_named():
    """A damaged installation says what is missing and what to do."""
    with pytest.raises(WorkspaceError, match=r"nothing\.yaml: .*reinstall"):
        workspace.data_file("nothing.yaml")


def test_python_of_the_children_is_found_on_the_path(tmp_path):
    """--python may be a name or a path; it is kept as an absolute one."""
    path = script(tmp_path, f'exec "{sys.executable}" "$@"')
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert workspace.locate(environ, python="python").python == str(path)
    assert workspace.locate(PATH, python=str(path)).python == str(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'exec "{sys.executable}" -S -E "$@"', "found no pytest and no PyYAML; run .*pip install"),
        ("exit 3", "expected a working Python, found"),
        ("kill -9 $$", "expected a working Python, found"),
    ],
)
def test_python_that_cannot_run_a_child_is_refused(tmp_path, text, told):
    """A Python that lacks pytest or does not run is refused before anything starts."""
    with pytest.raises(WorkspaceError, match=told):
        workspace.locate(PATH, python=str(script(tmp_path, text)))


def test_python_that_is_not_there_is_refused():
    """An unknown name is refused with the option."""
    with pytest.raises(WorkspaceError, match="--python nopython: expected a Python to run"):
        workspace.locate(PATH, python="nopython")


def test_dotenv_lies_beside_the_project():
    """The defaults of a checkout are those of its own .env, wherever the command is given."""
    assert workspace.dotenv_file() == Path(__file__).resolve().parent.parent / ".env"

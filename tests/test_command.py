"""A child's command is data: arguments, folder, environment, and a text for a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fusion import command
from fusion.command import Command


def environment(environ, **changed):
    given = {
        "pytest_arguments": ["/suite/benchmark/test_x.py", "-m", "x"],
        "omp_threads": 4,
        "pipeline": {"TRITON_SHARED_FORCE_SVE_PIPELINE": "1"},
        "caches": Path("/run/cache"),
        "formulas": "/formulas.yaml",
        "operator": "x",
        "sources": ("/suite", "/suite/src"),
    }
    return command.environment(environ, **{**given, **changed})


def test_selection_names_files_absolutely_and_the_marker():
    """A benchmark is selected by its files and, where it has one, its marker."""
    files = ("benchmark/test_a.py", "benchmark/test_b.py")
    root = Path("/suite")
    assert command.selection(root, files, "x") == [
        "/suite/benchmark/test_a.py",
        "/suite/benchmark/test_b.py",
        "-m",
        "x",
    ]
    assert command.selection(root, files[:1], None) == ["/suite/benchmark/test_a.py"]


def test_selection_narrows_to_test_functions():
    """Test functions of a shared marker are selected one by one."""
    chosen = command.selection(Path("/suite"), ("t.py",), None, ("test_1", "test_2"))
    assert chosen == ["/suite/t.py::test_1", "/suite/t.py::test_2"]


def test_options_are_the_suites_own():
    """dtype and shape file are left out where the suite chooses."""
    plain = ["--mode", "kernel", "--level", "core", "--warmup", "5", "--iter", "6"]
    assert command.options("kernel", "core", 5, 6, None, None) == [*plain, "--record", "log"]
    assert command.options("kernel", "core", 5, 6, "bfloat16", "/s.yaml") == [
        *plain,
        "--dtypes",
        "bfloat16",
        "--shape_file",
        "/s.yaml",
        "--record",
        "log",
    ]


def test_environment_has_the_contract_the_threads_and_the_caches():
    """A child is told formulas, operator, threads, pipeline and where to keep kernels."""
    found = environment({})
    assert found["FLAGGEMS_FUSION_METRICS_CONFIG"] == "/formulas.yaml"
    assert found["FLAGGEMS_FUSION_METRICS_KEY"] == "x"
    assert found["OMP_NUM_THREADS"] == "4"
    assert found["TRITON_SHARED_FORCE_SVE_PIPELINE"] == "1"
    assert found["TRITON_CACHE_DIR"] == "/run/cache/triton"
    assert found["FLAGGEMS_CACHE_DIR"] == "/run/cache/flaggems"
    assert found["PYTHONPATH"] == f"{command.PLUGIN_FOLDER}:/suite:/suite/src"
    assert found["PYTEST_ADDOPTS"].endswith("/suite/benchmark/test_x.py -m x")


def test_callers_paths_and_options_stand_between_the_plugin_and_the_suite():
    """What the caller set is kept: its options first, its path before the suite's."""
    found = environment({"PYTHONPATH": "/mine", "PYTEST_ADDOPTS": "-ra"})
    assert found["PYTHONPATH"] == f"{command.PLUGIN_FOLDER}:/mine:/suite:/suite/src"
    assert found["PYTEST_ADDOPTS"].startswith("-ra -s -p fusion_metrics_plugin ")


def test_only_foreign_pipelines_of_the_caller_are_unset():
    """A switch that would force another pipeline goes, everything else stays."""
    environ = {
        "TRITON_SHARED_FORCE_SME_PIPELINE": "1",
        "TRITON_SHARED_FORCE_SVE_PIPELINE": "0",
        "TRITON_SHARED_FORCE_X": "1",
        "PATH": "/bin",
    }
    chosen = {"TRITON_SHARED_FORCE_SVE_PIPELINE": "1"}
    assert command.other_pipelines(environ, chosen) == ("TRITON_SHARED_FORCE_SME_PIPELINE",)


def test_applied_environment_adds_and_removes():
    """The child's environment is the caller's without the unset names, with ours on top."""
    made = Command(("x",), "/f", {"A": "2"}, ("B",))
    assert made.applied({"A": "1", "B": "1", "C": "1"}) == {"A": "2", "C": "1"}


def test_shell_text_means_exactly_the_command(tmp_path):
    """Pasted into a POSIX shell, quotes, spaces and dollars arrive as they are."""
    tricky = 'it\'s $HOME `x` "q" \\ *\t;&| ü'
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
    folder = tmp_path / "a b'c"
    made = Command((sys.executable, "-c", code, tricky), str(folder), {"SET": tricky}, ("GONE",))
    done = subprocess.run(
        ["sh", "-c", made.shell()],
        env={"GONE": "1", "KEPT": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    arguments, where, environ = json.loads(done.stdout)
    assert (arguments, where) == ([tricky], str(folder))
    assert (environ["SET"], environ["KEPT"]) == (tricky, "1")
    assert "GONE" not in environ


def test_plugin_folder_holds_the_plugin_alone():
    """Nothing but the plugin reaches the child through the path that is added."""
    modules = [path.name for path in command.PLUGIN_FOLDER.glob("*") if path.name != "__pycache__"]
    assert modules == [f"{command.PLUGIN_NAME}.py"]

"""Settings: precedence, sources, and the strictness of .env."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion import settings
from fusion.settings import FIELDS, SettingsError


@pytest.fixture
def dotenv(tmp_path):
    return tmp_path / ".env"


def resolve(dotenv, options=None, environ=None):
    return settings.resolve(options or {}, environ or {}, dotenv, dotenv.parent)


def test_defaults_are_those_of_the_design(dotenv):
    """Without any source every field has its documented default."""
    chosen = resolve(dotenv)
    assert (chosen.warmup, chosen.iter, chosen.mode, chosen.level) == (5, 5, "kernel", "core")
    assert (chosen.dtypes, chosen.jobs, chosen.omp_threads, chosen.numa_nodes) == (None,) * 4
    assert (chosen.target_tflops, chosen.target_gbps, chosen.shape_file) == (None, None, None)
    assert chosen.timeout == 18000
    assert chosen.output_dir == dotenv.parent / "logs" / "fusion_metrics"
    assert set(chosen.sources.values()) == {"default"}


def test_each_source_beats_the_next(dotenv):
    """The command line beats the environment, which beats .env, which beats the default."""
    dotenv.write_text("FUSION_WARMUP=1\nFUSION_ITER=1\nFUSION_LEVEL=comprehensive\n")
    chosen = resolve(
        dotenv,
        options={"warmup": "3"},
        environ={"FUSION_WARMUP": "2", "FUSION_ITER": "2"},
    )
    assert (chosen.warmup, chosen.iter, chosen.level, chosen.mode) == (
        3,
        2,
        "comprehensive",
        "kernel",
    )
    assert [chosen.sources[name] for name in ("warmup", "iter", "level", "mode")] == [
        "command line",
        "environment",
        ".env",
        "default",
    ]


def test_output_follows_agent_dir(dotenv):
    """AGENT_DIR decides the output folder unless one is given."""
    assert resolve(dotenv, environ={"AGENT_DIR": "/a"}).output_dir == Path("/a/logs/fusion_metrics")
    given = resolve(dotenv, options={"output_dir": "/b"}, environ={"AGENT_DIR": "/a"})
    assert given.output_dir == Path("/b")


def test_relative_path_is_taken_from_the_current_folder_on_the_command_line_only(dotenv):
    """A relative path means something on the command line and nothing elsewhere."""
    assert resolve(dotenv, options={"output_dir": "out"}).output_dir == dotenv.parent / "out"
    with pytest.raises(SettingsError, match=r"FUSION_OUTPUT_DIR.*an absolute path.*'out'"):
        resolve(dotenv, environ={"FUSION_OUTPUT_DIR": "out"})


def test_empty_values_are_unset(dotenv):
    """An empty variable or line leaves the default in place."""
    dotenv.write_text("FUSION_ITER=\n")
    chosen = resolve(dotenv, environ={"FUSION_WARMUP": ""})
    assert (chosen.warmup, chosen.iter) == (5, 5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("warmup", "-1"),
        ("warmup", "1.5"),
        ("iter", "0"),
        ("iter", "ten"),
        ("mode", "fast"),
        ("level", "all"),
        ("dtypes", "float31"),
        ("dtypes", "float32,bfloat16"),
        ("jobs", "0"),
        ("omp_threads", "0"),
        ("omp_threads", "64"),
        ("numa_nodes", "0,0"),
        ("numa_nodes", "zero"),
        ("target_tflops", "-1"),
        ("target_tflops", "nan"),
        ("target_gbps", "0"),
        ("target_gbps", "inf"),
        ("timeout", "soon"),
        ("shape_file", "/nowhere/shapes.yaml"),
        ("shape_file", ""),
    ],
)
def test_bad_value_names_option_expectation_and_finding(dotenv, name, text):
    """A bad value is refused with the option, what was expected and what was found."""
    with pytest.raises(SettingsError) as refusal:
        resolve(dotenv, options={name: text})
    message = str(refusal.value)
    assert message.startswith("--" + name.replace("_", "-"))
    assert "expected" in message
    assert f"found {text!r}" in message or name == "shape_file"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("FUSION_ITRE=5", "did you mean FUSION_ITER"),
        ("PATH=/bin", "expected a known key"),
        ("export FUSION_ITER=5", "without 'export'"),
        ("FUSION_ITER", "FUSION_NAME=value"),
        ("FUSION_ITER=5\nFUSION_ITER=6", "already set in line 1"),
        ("FUSION_ITER=five", "whole number"),
        ("FUSION_OUTPUT_DIR=$HOME/x", "nothing is substituted"),
        ("FUSION_OUTPUT_DIR=`pwd`", "nothing is substituted"),
        ("FUSION_OUTPUT_DIR=x/y", "an absolute path"),
        ("FUSION_SHAPE_FILE=shapes.yaml", "an absolute path"),
        ("FUSION_SHAPE_FILE=/nowhere.yaml", "existing shape file"),
    ],
)
def test_bad_dotenv_is_refused_with_file_and_line(dotenv, line, complaint):
    """An error of .env names the file and the line, also for a field that is overridden."""
    dotenv.write_text("# a comment\n\n" + line + "\n")
    number = 3 + line.count("\n")
    with pytest.raises(SettingsError) as refusal:
        resolve(dotenv)
    assert str(refusal.value).startswith(f"{dotenv}:{number}: ")
    assert complaint.replace("line 1", "line 3") in str(refusal.value)


def test_dotenv_values_may_be_quoted_and_hold_spaces(dotenv):
    """A pair of quotes around a value is not part of it."""
    dotenv.write_text('FUSION_OUTPUT_DIR="/a b/c"\n')
    assert resolve(dotenv).output_dir == Path("/a b/c")


def test_dotenv_that_is_not_text_is_refused(dotenv):
    """A file that is not UTF-8 is an error, not a crash."""
    dotenv.write_bytes(b"FUSION_ITER=\xff\n")
    with pytest.raises(SettingsError, match="UTF-8"):
        resolve(dotenv)


def test_described_settings_are_plain_json_values(dotenv):
    """Paths and tuples become texts and lists, each with its source."""
    described = settings.described(resolve(dotenv, options={"numa_nodes": "0,1"}))
    assert described["numa_nodes"] == {"value": [0, 1], "source": "command line"}
    assert described["output_dir"]["value"] == str(dotenv.parent / "logs" / "fusion_metrics")


def test_the_projects_dotenv_explains_every_field_and_sets_none():
    """The file in the repository names all 13 fields, all commented out, and is valid."""
    path = Path(__file__).parent.parent / ".env"
    lines = path.read_text().splitlines()
    named = [line.lstrip("# ").partition("=")[0] for line in lines if "FUSION_" in line]
    assert named == [field.key for field in FIELDS]
    assert len(FIELDS) == 13
    assert all(line.startswith("#") for line in lines if line)
    assert set(resolve(path).sources.values()) == {"default"}

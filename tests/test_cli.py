"""Options are declared once, and read from what the command line gave."""

from __future__ import annotations

import inspect

import pytest

from fusion import cli
from fusion.cli import Option
from fusion.settings import FIELDS

OPTIONS = (Option("run", "", []), Option("output_dir", ""), Option("dry_run", "", False))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", 0),
        ("show", 0),
        ("show a", 1),
        ("show a b", 2),
        ("list", 0),
        ("list a b", 0),
        ("show --output-dir out", 0),
        ("show --output-dir out a", 1),
        ("show --output-dir=out a", 1),
        ("show --output-dir=out a b", 2),
        ("show a --output-dir out b", 2),
        ("show --dry-run a", 1),
        ("show a --dry-run", 1),
        ("show --run a --run b c", 1),
        ("show --run -a b", 1),
        ("show --help", 0),
        ("--search-root /x show a", 1),
        ("--echo show a", 1),
    ],
)
def test_bare_words_are_neither_options_nor_their_values(line, words):
    """Only what stands alone behind the task counts."""
    assert cli.bare_words(line.split(), "show", OPTIONS) == words


@pytest.mark.parametrize(
    ("line", "empty"),
    [
        ("inv compare a b --fail-on", ["--fail-on"]),
        ("inv compare --fail-on --format md a b", ["--fail-on"]),
        ("inv compare --fail-on slower a b --run", ["--run"]),
        ("inv compare --fail-on=slower a b --format", []),
        ("inv compare --fail-on slower --run a --run b", []),
    ],
)
def test_lists_without_a_value_are_told(line, empty):
    """A gate whose names are missing must not let everything pass."""
    options = (cli.FAIL_ON, cli.RUN_NAME, cli.FORMAT)
    assert cli.without_value(line.split(), options) == empty


def test_task_takes_its_options_and_words_by_name():
    """invoke sees every option with its default, and one positional for each word."""

    @cli.taking(OPTIONS, words=2)
    def body(context, given):
        """Say what it does."""
        return context, given

    parameters = inspect.signature(body).parameters
    assert list(parameters) == ["context", "run", "output_dir", "dry_run", "word_0", "word_1"]
    assert parameters["dry_run"].default is False
    assert parameters["word_1"].default is inspect.Parameter.empty
    assert body.__doc__ == "Say what it does."
    given = {"run": [], "word_0": "a", "word_1": "b"}
    assert body("c", **given) == ("c", given)
    assert cli.words(given) == ["a", "b"]


def test_lists_and_helps_are_those_of_the_options():
    """An option with an empty list may be given more than once, and each has its help."""
    assert cli.lists(OPTIONS) == ["run"]
    assert cli.helps([Option("a", "what a is")]) == {"a": "what a is"}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["a,b", "c"], ("a", "b", "c")),
        (["a, b ,", ",a"], ("a", "b")),
        ([""], ()),
        ([], ()),
    ],
)
def test_names_are_split_at_commas_in_order_each_once(given, names):
    """Operators may be given as a list, repeatedly, or both."""
    assert cli.names(given) == names


def test_every_setting_is_an_option_with_help():
    """The 13 settings are options of a run, and nothing is declared twice."""
    names = [option.name for option in cli.RUN]
    assert {field.name for field in FIELDS} <= set(names)
    assert len(names) == len(set(names))
    assert all(option.help for option in (*cli.RUN, *cli.AUDIT))


def test_what_was_given_is_sorted():
    """Settings become texts, operators names, places themselves; what is absent is None."""
    options = cli.read(
        {
            "ops": ["a,b"],
            "warmup": 3,
            "iter": None,
            "dtypes": ["float16", "float32"],
            "pipeline": "SVE",
            "flaggems": "/f",
        }
    )
    assert options.settings == {"warmup": "3", "iter": None, "dtypes": "float16,float32"}
    assert (options.operators, options.pipeline, options.flaggems) == (("a", "b"), "SVE", "/f")
    assert (options.python, options.targets) == (None, None)


def test_option_that_was_not_given_leaves_the_setting_alone():
    """An empty list of dtypes is no dtype."""
    assert cli.read({"dtypes": []}).settings == {"dtypes": None}

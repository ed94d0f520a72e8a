from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import cpulist
from fusion.cpulist import CpuListError
from fusion.errors import Refusal


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", (0,)),
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("0-0", (0,)),
        ("8,0-1\n", (8, 0, 1)),
        ("1, 3", (1, 3)),
        ("0-2,1", (0, 1, 2, 1)),
        ("300-303", (300, 301, 302, 303)),
        ("", ()),
        ("\n", ()),
    ],
)
def test_parses_numbers_and_ranges_in_the_order_written(
    text: str, numbers: tuple[int, ...]
) -> None:
    """A list gives its numbers in the order written, repetitions included."""
    assert cpulist.parse(text) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "0,x",
        "0,,1",
        "0,",
        ",",
        "-1",
        "1-",
        "3-0",
        "0-1-2",
        "0 1",
        "1.5",
        "0x1",
        "٣",
        "0-3:2/4",
    ],
)
def test_refuses_what_is_no_list(text: str) -> None:
    """Anything but numbers and ascending ranges is refused with the whole text in the message."""
    with pytest.raises(CpuListError, match="expected numbers and ascending ranges") as caught:
        cpulist.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0-999999999", "100000"])
def test_refuses_a_number_that_no_kernel_has(text: str) -> None:
    """A number beyond five digits is refused before a range of it can fill the memory."""
    with pytest.raises(CpuListError, match=f"found '{text}'"):
        cpulist.parse(text)


def test_its_error_is_a_refusal() -> None:
    """A malformed list ends a command as every other refused input does."""
    assert issubclass(CpuListError, Refusal)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((0, 1), "0-1"),
        ((3, 2, 1, 8), "1-3,8"),
        ((0, 2, 4), "0,2,4"),
        ((7, 7, 8), "7-8"),
    ],
)
def test_renders_the_shortest_list(numbers: tuple[int, ...], text: str) -> None:
    """Numbers are written ascending, each once, neighbours as ranges."""
    assert cpulist.render(numbers) == text


@given(st.sets(st.integers(min_value=0, max_value=99999), max_size=40))
def test_rendering_and_parsing_are_inverse(numbers: set[int]) -> None:
    """Parsing what was rendered gives the same numbers, ascending."""
    assert cpulist.parse(cpulist.render(numbers)) == tuple(sorted(numbers))

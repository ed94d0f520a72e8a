"""The bytes of one buffer, with NumPy alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fusion.audit.bitmap import Bitmap


def offsets(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_read_marks_each_byte_of_its_element_once() -> None:
    """Reading an element twice counts its bytes once."""
    bitmap = Bitmap(16)
    bitmap.read_at(offsets(4, 4, 8), 4)
    assert bitmap.read.tolist() == [0] * 4 + [1] * 8 + [0] * 4


def test_a_read_after_a_write_is_not_a_read() -> None:
    """What the call itself wrote is not compulsory traffic when it reads it again."""
    bitmap = Bitmap(8)
    bitmap.write_at(offsets(0), 4)
    bitmap.read_at(offsets(0, 4), 4)
    assert bitmap.read.tolist() == [0] * 4 + [1] * 4
    assert bitmap.written.tolist() == [1] * 4 + [0] * 4


def test_a_write_after_a_read_keeps_the_read() -> None:
    """An in-place operation counts both its read and its write."""
    bitmap = Bitmap(8)
    bitmap.read_at(offsets(0), 8)
    bitmap.write_at(offsets(0), 8)
    assert bitmap.read.sum() == bitmap.written.sum() == 8


def test_a_wide_read_over_a_narrow_write_reads_the_rest() -> None:
    """Of a word that was written in part, only the other bytes are read."""
    bitmap = Bitmap(8)
    bitmap.write_at(offsets(1), 1)
    bitmap.read_at(offsets(0), 4)
    assert bitmap.read.tolist() == [1, 0, 1, 1, 0, 0, 0, 0]


def test_an_unaligned_access_marks_its_own_bytes() -> None:
    """An element that does not start at a multiple of its size is marked byte by byte."""
    bitmap = Bitmap(9)
    bitmap.write_at(offsets(3), 4)
    assert bitmap.written.tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0]


def test_a_strided_view_marks_its_elements_alone() -> None:
    """The columns of a matrix that a view leaves out stay unmarked."""
    bitmap = Bitmap(12)
    bitmap.read_view(2, (2, 2), (6, 2), 2)
    assert bitmap.read.tolist() == [0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1]


def test_a_broadcast_view_counts_its_element_once() -> None:
    """A stride of zero repeats one element, whose bytes count once."""
    bitmap = Bitmap(8)
    bitmap.read_view(0, (100,), (0,), 4)
    assert bitmap.read.sum() == 4


accesses = st.lists(
    st.tuples(st.booleans(), st.sampled_from([1, 2, 4, 8]), st.integers(0, 24)), max_size=12
)


@given(accesses)
def test_any_sequence_of_accesses_agrees_with_bytes_marked_one_by_one(
    accesses: list[tuple[bool, int, int]],
) -> None:
    """Words marked at once give what a loop over bytes gives, aligned or not."""
    bitmap, read, written = Bitmap(32), [0] * 32, [0] * 32
    for writes, width, offset in accesses:
        (bitmap.write_at if writes else bitmap.read_at)(offsets(offset), width)
        for byte in range(offset, offset + width):
            if writes:
                written[byte] = 1
            elif not written[byte]:
                read[byte] = 1
    assert bitmap.read.tolist() == read
    assert bitmap.written.tolist() == written

"""Remember which bytes of one buffer were read before being written, and which were written."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]

_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_ALIGNMENT = 8


class Bitmap:
    """Two flags per byte of a buffer of ``size`` bytes: read before written, and written."""

    def __init__(self, size: int) -> None:
        padded = -(-size // _ALIGNMENT) * _ALIGNMENT
        self.size = size
        self._read: Bytes = np.zeros(padded, np.uint8)
        self._written: Bytes = np.zeros(padded, np.uint8)

    @property
    def read(self) -> Bytes:
        """Flags of the bytes that were read before anything wrote them. Shape (size,)."""
        return self._read[: self.size]

    @property
    def written(self) -> Bytes:
        """Flags of the bytes that were written. Shape (size,)."""
        return self._written[: self.size]

    def read_at(self, offsets: Indices, width: int) -> None:
        """Note a read of ``width`` bytes at each byte offset. Offsets may repeat."""
        for index, word in _words(offsets, width):
            written = self._written.view(_WORDS[word])
            fresh = index[written[index] == 0]
            self._read.view(_WORDS[word])[fresh] = _ones(word)
            _read_partly_written(self._read, written, index, word)

    def write_at(self, offsets: Indices, width: int) -> None:
        """Note a write of ``width`` bytes at each byte offset. Offsets may repeat."""
        for index, word in _words(offsets, width):
            self._written.view(_WORDS[word])[index] = _ones(word)

    def read_view(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], width: int
    ) -> None:
        """Note a read of a strided view. ``offset`` and ``strides`` are in bytes."""
        written = strided(self._written, offset, shape, strides, width)
        read = strided(self._read, offset, shape, strides, width)
        np.copyto(read, 1, where=written == 0)

    def write_view(
        self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], width: int
    ) -> None:
        """Note a write of a strided view. ``offset`` and ``strides`` are in bytes."""
        strided(self._written, offset, shape, strides, width)[...] = 1


def strided(
    flags: Bytes, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], width: int
) -> Any:
    """View flags as the bytes of a strided tensor: shape (\\*shape, width)."""
    return np.lib.stride_tricks.as_strided(flags[offset:], (*shape, width), (*strides, 1))


def _ones(word: int) -> int:
    return int.from_bytes(b"\1" * word, "little")


def _words(offsets: Indices, width: int) -> list[tuple[Indices, int]]:
    """Split accesses into aligned words: one index array when all are aligned, else per byte."""
    if width in _WORDS and not (offsets % width).any():
        return [(offsets // width, width)]
    return [(offsets + byte, 1) for byte in range(width)]


def _read_partly_written(read: Bytes, written: Any, index: Indices, word: int) -> None:
    """Mark the unwritten bytes of words of which another part was already written."""
    values = written[index]
    partly = index[(values != 0) & (values != _ones(word))]
    if partly.size:
        spread = (partly[:, None] * word + np.arange(word)).ravel()
        read[spread[written.view(np.uint8)[spread] == 0]] = 1

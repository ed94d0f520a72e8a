"""Follow the accesses of one call to every storage that it meets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fusion.audit.bitmap import Bitmap, strided


class Storage:
    """One block of memory: its address, its flags, and whether the call itself made it."""

    def __init__(self, owner: Any, made: bool) -> None:
        self.owner = owner  # keeps the memory from being given to another tensor
        self.address: int = owner.data_ptr()
        self.size: int = owner.nbytes()
        self.end = self.address + self.size
        self.made = made
        self.bitmap = Bitmap(self.size)


class Memory:
    """Find the storage behind an address and note what is read and written there."""

    def __init__(self) -> None:
        self._storages: dict[int, Storage] = {}
        self._addresses: list[int] = []
        self._sorted: list[Storage] = []
        self.stray = 0

    def meet(self, tensor: torch.Tensor, made: bool = False) -> Storage | None:
        """Register a tensor's storage; ``made`` when the call itself allocated it."""
        owner = tensor.untyped_storage()
        if owner.nbytes() == 0 or owner.device.type != "cpu":
            return None
        known = self._storages.get(owner.data_ptr())
        if known is None:
            known = self._storages[owner.data_ptr()] = Storage(owner, made)
            place = bisect_right(self._addresses, known.address)
            self._addresses.insert(place, known.address)
            self._sorted.insert(place, known)
        return known

    def knows(self, tensor: torch.Tensor) -> bool:
        """Tell whether the tensor's storage has been met."""
        return tensor.untyped_storage().data_ptr() in self._storages

    def outside(self) -> Iterator[Storage]:
        """Yield the storages that existed before the call."""
        yield from (storage for storage in self._sorted if not storage.made)

    def access(self, pointers: Any, mask: Any, width: int, read: bool, write: bool) -> Any:
        """Note an access of a block of pointers under a mask; return the mask of what exists."""
        addresses = pointers[mask].astype(np.int64)
        if not addresses.size:
            return mask
        low, high = int(addresses.min()), int(addresses.max()) + width
        storage = self._at(low)
        if storage is not None and high <= storage.end:
            _note(storage, addresses, width, read, write)
            return mask
        return self._scattered(addresses, mask, width, read, write)

    def _at(self, address: int) -> Storage | None:
        place = bisect_right(self._addresses, address) - 1
        return self._sorted[place] if place >= 0 else None

    def _scattered(self, addresses: Any, mask: Any, width: int, read: bool, write: bool) -> Any:
        places = np.searchsorted(np.array(self._addresses), addresses, "right") - 1
        ends = np.array([0, *(storage.end for storage in self._sorted)])
        inside = addresses + width <= ends[places + 1]
        self.stray += int((~inside).sum()) * width
        for place in np.unique(places[inside]):
            _note(self._sorted[place], addresses[inside & (places == place)], width, read, write)
        exists = mask.copy()
        exists[mask] = inside
        return exists

    def read(self, tensor: torch.Tensor) -> None:
        """Note that every element of a tensor is read."""
        storage = self.meet(tensor)
        if storage is not None and tensor.numel():
            storage.bitmap.read_view(*layout(tensor))

    def write(self, tensor: torch.Tensor, made: bool = False) -> None:
        """Note that every element of a tensor is written."""
        storage = self.meet(tensor, made)
        if storage is not None and tensor.numel():
            storage.bitmap.write_view(*layout(tensor))

    def touch(self, tensor: torch.Tensor, elements: Any, read: bool, write: bool) -> None:
        """Note accesses to elements, given as offsets into the tensor's storage."""
        storage = self.meet(tensor)
        width = tensor.element_size()
        if storage is not None and elements.size:
            _note(storage, storage.address + elements * width, width, read, write)


def _note(storage: Storage, addresses: Any, width: int, read: bool, write: bool) -> None:
    offsets = addresses - storage.address
    if read:
        storage.bitmap.read_at(offsets, width)
    if write:
        storage.bitmap.write_at(offsets, width)


def layout(tensor: torch.Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """Return a tensor's place in its storage, in bytes: offset, shape, strides, element size."""
    width = tensor.element_size()
    strides = tuple(stride * width for stride in tensor.stride())
    return tensor.storage_offset() * width, tuple(tensor.shape), strides, width


def count(flags: Any, tensor: torch.Tensor) -> int:
    """Count the flagged bytes of a tensor, each byte once however often the view repeats it."""
    view = np.zeros_like(flags)
    strided(view, *layout(tensor))[...] = 1
    return int(np.count_nonzero(flags & view))

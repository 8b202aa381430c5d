"""A call as data: the launches with their parameters, in which addresses of tensors are marked."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from coda_ir.native_calls.library import NativeLibrary

MAP_BYTES = 128
"""Of a descriptor, a CUtensorMap."""
MAP_ALIGNMENT = 64

MOST_SHARED = 228 << 10
"""Bytes of shared memory that need no attribute of the launch."""

NUMBERS = {"i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
"""Formats of `struct` by Triton's types."""


class Unsupported(Exception):
    """The call has something that the native code does not know."""


@dataclass(frozen=True)
class Range:
    """The memory of a tensor."""

    start: int
    size: int
    tensor: int
    """Its place among the arguments and what is allocated."""


@dataclass
class Block:
    """The parameters of all launches, as they are passed to the driver."""

    ranges: Sequence[Range]
    kept: Sequence[torch.Tensor] = ()
    """What the module keeps for a stream."""
    is_for_stream: bool = False
    """Whether something of that is used."""
    data: bytearray = field(default_factory=bytearray)
    launches: list[bytes] = field(default_factory=list[bytes])
    offsets: list[int] = field(default_factory=list[int])
    pointers: list[bytes] = field(default_factory=list[bytes])
    maps: list[bytes] = field(default_factory=list[bytes])

    def add_launch(self, launch: Any) -> None:
        """Add what Triton's launcher would pass. Raises Unsupported."""
        launcher, first = launch.launcher, len(self.offsets)
        if 0 in launch.grid:
            return
        warps, blocks, shared = launcher.compiled.packed_metadata
        function, is_cooperative, is_dependent = launcher.fixed[:3]
        if blocks != 1 or shared > MOST_SHARED:
            raise Unsupported("clusters")
        self._add_parameters(_types(launcher.compiled.src.signature), launch)
        flags = (int(bool(is_cooperative)), int(bool(is_dependent)))
        head = (function, *launch.grid, 32 * warps, shared, *flags, first)
        self.launches.append(struct.pack("=Q9I4x", *head, len(self.offsets) - first))

    def _add_parameters(self, types: Iterable[str], launch: Any) -> None:
        given: Sequence[Any] = launch.values
        values, addresses = iter(enumerate(given)), dict(launch.addresses)
        for type in types:
            place, value = next(values)
            if type.startswith("tensordesc"):
                self._add_map(value, addresses[place])
                rank = type.count(",", 0, type.index("]")) + 1
                for format in "i" * rank + "q" * rank:
                    self._add(format, next(values)[1])
            elif type.startswith("*"):
                self._add_address(value)
            elif type in NUMBERS:
                self._add(NUMBERS[type], value)
            elif type != "constexpr":
                raise Unsupported(f"a parameter of type {type}")
        if next(values, None) is not None:
            raise Unsupported("more arguments than parameters")
        self._add("Q", 0)  # memory that the kernel would ask for, for itself
        self._add("Q", 0)  # and for profiles

    def _add(self, format: str, value: int) -> int:
        return self._append(struct.pack(f"={format}", value), struct.calcsize(f"={format}"))

    def _append(self, value: bytes, alignment: int) -> int:
        self.data += bytes(-len(self.data) % alignment)
        offset = len(self.data)
        self.data += value
        self.offsets.append(offset)
        return offset

    def _add_address(self, address: int) -> None:
        offset = self._add("Q", address)
        if any(x.data_ptr() <= address < x.data_ptr() + x.nbytes for x in self.kept):
            self.is_for_stream = True
        else:
            self.pointers.append(self._pointer(offset, address))

    def _add_map(self, value: Any, address: int) -> None:
        size = type(value).__basicsize__
        if type(value).__name__ != "PyCUtensorMap" or size < MAP_BYTES:
            raise Unsupported("descriptors without tensor maps")
        # It ends the object, at an aligned place.
        data = ctypes.string_at(id(value) + size - MAP_BYTES, MAP_BYTES)
        self.maps.append(self._pointer(self._append(data, MAP_ALIGNMENT), address))

    def _pointer(self, offset: int, address: int) -> bytes:
        """The place of an address in the block. Raises Unsupported unless one tensor has it."""
        found = [x for x in self.ranges if x.start <= address < x.start + x.size]
        if len(found) != 1:
            raise Unsupported(f"an address of {len(found)} tensors")
        return struct.pack("=IIQ", offset, found[0].tensor, address - found[0].start)

    def packed(self) -> tuple[bytes, ...]:
        """As the native code takes it."""
        offsets = struct.pack(f"={len(self.offsets)}I", *self.offsets)
        parts = (self.launches, self.pointers, self.maps)
        launches, pointers, maps = (b"".join(part) for part in parts)
        return launches, offsets, pointers, maps, bytes(self.data)


def _extent(x: torch.Tensor) -> int:
    """How many bytes there are from the first to the last one of a tensor."""
    steps = (abs(stride) * (size - 1) for size, stride in zip(x.shape, x.stride(), strict=True))
    return (1 + sum(steps)) * x.itemsize if x.numel() else 0


def _types(signature: Any) -> Iterator[str]:
    for type in signature.values():
        if not isinstance(type, str):
            raise Unsupported("tuples")
        yield type


UNKNOWN = (AttributeError, LookupError, StopIteration, TypeError, ValueError, struct.error)
"""What a Triton raises here that keeps something elsewhere than those that are known."""


@dataclass(frozen=True)
class Call:
    """A call of the function `run` of a generated module, which was just made."""

    module: Any
    tensors: Sequence[torch.Tensor]
    results: Sequence[torch.Tensor]
    work_address: int
    """Of the memory for what the call needed meanwhile; see `Calls.observed` in
    runtime/replay.py."""
    work_bytes: int
    launches: Sequence[Any]

    def recorded(self, library: NativeLibrary) -> object | None:
        """The call as native code repeats it; None where it has something that only Python knows,
        or where two of its tensors share memory.
        """
        if (self._device.index or 0) != self._driver.get_current_device():
            return None
        try:
            return library.recorded((*self.tensors,), self._description(library))
        except (Unsupported, *UNKNOWN):
            return None

    @property
    def _device(self) -> torch.device:
        return self.tensors[0].device

    @property
    def _driver(self) -> Any:
        return self.module.direct_driver()

    def _description(self, library: NativeLibrary) -> tuple[object, ...]:
        """What the native code is told. Raises Unsupported, and what is UNKNOWN."""
        stream = self._driver.get_current_stream(self._device.index or 0)
        known, block = self._known(), self._block(stream)
        allocations = [((*x.shape,), x.stride(), x.dtype) for x in known[len(self.tensors) :]]
        if self.work_bytes:
            allocations.append(((self.work_bytes,), (1,), torch.uint8))
        places = {id(x): place for place, x in reversed([*enumerate(known)])}
        order = struct.pack(f"={len(self.results)}I", *(places[id(x)] for x in self.results))
        launchers = [launch.launcher for launch in self.launches if 0 not in launch.grid]
        only = stream if block.is_for_stream else None
        functions = self._functions(library, [each.compiled.name for each in launchers])
        return (order, (*allocations,), block.packed(), *functions, only, launchers)

    def _known(self) -> list[torch.Tensor]:
        """The arguments, and the results that are none of them."""
        fresh = [x for x in self.results if not any(x is tensor for tensor in self.tensors)]
        return [*self.tensors, *{id(x): x for x in fresh}.values()]

    def _block(self, stream: int) -> Block:
        known = self._known()
        ranges = [Range(x.data_ptr(), _extent(x), place) for place, x in enumerate(known)]
        ranges.append(Range(self.work_address, self.work_bytes, len(known)))
        counters = getattr(self.module, "COUNTERS", {})
        block = Block(ranges, counters.get((self._device.index, stream), ()))
        for launch in self.launches:
            block.add_launch(launch)
        return block

    def _functions(self, library: NativeLibrary, kernels: Sequence[str]) -> tuple[object, ...]:
        """What the native code asks Python for."""
        driver = self._driver
        internals: Any = torch._C  # pyright: ignore[reportPrivateUsage]
        return (
            self.module.empty_on(self._device),
            getattr(internals, "_cuda_getDevice", driver.get_current_device),
            driver.get_current_device(),
            driver.get_current_stream,
            import_module("triton").knobs.runtime,
            partial(library.fail, kernels),
        )

"""The workspace of a host program: one allocation, whose parts only kernels read and write.

On the host, an allocation takes as long as a launch. A part costs nothing there: a direct launch
adds where it begins to the address of the workspace.
"""

from collections.abc import Hashable

MAX_BYTES = 64 * 2**20
"""Bytes of the workspace, at most: it is kept during the call. The time of kernels for larger
tensors exceeds that of allocations.
"""

ALIGNMENT = 512
"""Parts begin at multiples of these bytes, as PyTorch's allocations do."""


class Workspace:
    """The places of values in the workspace, first fit in the order of the operators."""

    def __init__(self) -> None:
        self.size = 0
        """The bytes that all parts need."""
        self._places: dict[Hashable, range] = {}
        """The bytes of values that are still to be read."""

    def take(self, value: Hashable, size: int) -> int | None:
        """Return where the bytes of a value begin; None if the workspace would become too large."""
        start = 0
        for place in sorted(self._places.values(), key=lambda place: place.start):
            if start + size <= place.start:
                break
            start = place.stop
        end = start + -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        if end > MAX_BYTES:
            return None
        self._places[value] = range(start, end)
        self.size = max(self.size, end)
        return start

    def free(self, value: Hashable) -> None:
        """Let later values have the bytes of a value, if it is in the workspace."""
        self._places.pop(value, None)

    def lines(self, name: str) -> list[str]:
        """Return the statement that allocates the workspace, if it has parts."""
        allocation = f"torch.empty_strided(({self.size},), (1,), dtype=torch.uint8, device=device)"
        return [f"{name} = {allocation}"] if self.size else []

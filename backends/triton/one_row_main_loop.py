"""The main loop of a GEMM kernel for one row, whose weights have 16 or 32 bits."""

from math import prod

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.mainloop import PointerMainLoop
from coda_ir.dialects.coda.shapes import element_bytes, shape_of

MAX_STEPS = 4
"""Steps of a row whose weights are loaded at a time."""


class OneRowMainLoop(PointerMainLoop):
    """Multiplies one row in float32 without tensor cores, so that no rows of a tile are wasted."""

    FUNCTION = "multiply_row"
    HAS_DOT = False

    @property
    def waits(self) -> bool:
        """True if weights may be read ahead, and before them nothing but their numbers is read."""
        return self._steps_ahead > 0

    @property
    def _steps_ahead(self) -> int:
        """The steps whose weights are loaded before the kernel waits."""
        op, splits = self.op, self.schedule.split_k.data
        has_partials = any(port.kind.combiner for part in op.segments() for port in part.ports)
        has_ids = op.gather is not None or op.scatter is not None or self._has_one_number
        is_first = not has_ids and len(op.inputs) == 1 and (splits > 1 or not has_partials)
        if not is_first or not Launch.of(op).reads_ahead:
            return 0
        # Programs have equally many steps of K, but the last one.
        last = self._all_steps - (splits - 1) * -(-self._all_steps // splits)
        return max(0, min(self._steps, last))

    @property
    def _has_one_number(self) -> bool:
        """True if the group of a tile is found before the loop."""
        return self.groups is not None and self.op.summed_rows == 1

    @property
    def _all_steps(self) -> int:
        return -(-int(self.depths[0]) // self.schedule.block_k.data)

    @property
    def _steps(self) -> int:
        """The steps that are loaded at a time, of weights of 16 bits."""
        steps = MAX_STEPS if element_bytes(self.op.weights[0].type) == 2 else 1
        return steps if self.op.summed_rows == 1 else min(steps, self._all_steps)

    def _rows(self) -> list[str]:
        """Return how many steps are loaded at a time, and ahead, and the arguments for rows that
        lie side by side, whose products are added.
        """
        summed, arguments = self.op.summed_rows, [f"STEPS={self._steps}"]
        if summed > 1 and self.groups is not None:
            arguments += [f"numbers={self.groups.ends} + tile_m * {summed}", f"ROWS={summed}"]
            arguments.append(f"B_ROW={prod(shape_of(self.op.weights[0])[1:])}")
        if self.waits:
            arguments.append(f"AHEAD={self._steps_ahead}")
        return arguments

"""The time of an operator as a kernel, and its roofline: the least for its bytes and products."""

from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass, field
from math import inf, prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, Float32Type, IntegerType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.cost_model.attention import idle_factor
from coda_ir.cost_model.devices import Device
from coda_ir.cost_model.library_calls import NORM_ROWS, Convolution, group_norm_us
from coda_ir.cost_model.library_gemm import EXTENTS, LibraryGemm, products_us, slowdown
from coda_ir.cost_model.memory_times import (
    EXTENT,
    KERNEL_US,
    Roofline,
    Sizes,
    kernel_us,
    moving_us,
    traffic,
)
from coda_ir.cost_model.operator_kinds import (
    LIBRARY,
    before_kernel,
    computes_function,
    dims_of_norms,
    groups_of,
    has_ragged_depth,
    is_attention,
    is_product,
)
from coda_ir.cost_model.ranking import described, structure_of
from coda_ir.cost_model.workload import Workload, issuing_us
from coda_ir.dialects import coda, gemm, torch
from coda_ir.dialects.coda.attention import AttentionLike
from coda_ir.dialects.coda.scan import StateSpaceGradLike, StateSpaceLike
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, is_float8, shape_of
from coda_ir.dialects.torch.determinism import AnyCall, Determinism, determinism_of
from coda_ir.small_products import ALIGNED, SmallProduct
from coda_ir.symbolic_shapes import Dims, SymbolicShapes, SymbolicSize
from coda_ir.traffic import is_executed

CONVOLUTION_EFFICIENCY = 0.025
"""Share of the peak rate of convolutions over patches of an image. Chosen so that 64 images in
patches of 16 x 16 or 32 x 32 and 768 channels take 600 us, as they did on an H100 (0.02 to 0.04 of
that as GEMMs)."""

ATTENTION_EFFICIENCY, ATTENTION_GRADIENT_EFFICIENCY = 0.6, 0.5
"""Share of the peak rate that PyTorch's kernels of attention reach. On an H100, 2 x 2048 tokens
with 16 heads of 128 took 109 us, and their gradients 350."""

OWN_ATTENTION_EFFICIENCY, OWN_GRADIENT_EFFICIENCY = 0.34, 0.45
"""The same of own kernels: with products that are waited for at once, which took 179 and 318 us for
these gradients, and asynchronous ones. On an H200, the gradients of 4096 tokens with 32 heads took
1352 us (64 columns 795), and by cuDNN 1207 (772); causal 715 (436), and by cuDNN 753 (495)."""

CAUSAL_SHARE, OWN_CAUSAL_SHARE = 0.75, 0.65
"""Share of the time for all scores that causal attention takes, which computes half of them: there,
PyTorch 82 us, 264 for the gradients, and own kernels 323."""

NARROW, OWN_NARROW, OWN_GRADIENT_NARROW = 0.85, 0.5, 0.75
"""Exponents of 128 divided by the columns of a narrower head, for how many times longer an
operation takes with it: exponentials take as long. On an H100, 16 x 1025 tokens with 16 heads of 64
took 225 us; their gradients 613, and 690 by own kernels."""

PYTORCH_MASK, PYTORCH_MASK_GRADIENT = 2.0, 1.6
"""The factors by which cuDNN's kernels take longer with a mask: there 210 us, and 582 for the
gradients without small kernels of 50. 8 x 1024 tokens with 16 heads of 64 took 84 us, 145 with a
mask; their gradients 244, with a mask 363 to 397."""

MASK_OF_KEYS, MASK_OF_SCORES, NUMBERS_OF_SCORES = 1.0, 1.55, 1.8
"""The factors by which own kernels of attention take longer with a mask: of keys, or with a truth
value or a number for each score. There, those of a step took 714 us with a mask of keys, 402 if
they are also causal, and 1102 with truth values of scores. 8 x 1024 tokens with 16 heads of 64 took
308 us for the gradients, 400 with truth values of scores and 560 with numbers."""

EFFICIENT_BYTES = 8
"""Bytes for each score by which PyTorch's attention is slower if it has a mask and also returns the
logsumexp. There, it took 546 us, and 1145 for the gradients of a mask of 32 heads of 64."""

UNALIGNED_BYTES = 36
"""Bytes for each score that PyTorch's operators move for attention with a mask whose heads have no
multiple of 8 columns, for which it has no kernel. On an H200, 64 heads with 300 x 300 scores took
150 us."""

GRADIENT_PRODUCTS, EXACT_MOMENT_PRODUCTS = 2.5, 0.3
"""Products of the gradients of attention, for each of attention: five for two; and those of an
exact moment. On an H200, it took 111 us for 4096 tokens with 32 heads of 128 (64 columns 125)."""

SCORE_BYTES = 4 * 3
"""Bytes that are moved for each score: in float32, stored once and loaded twice."""

CALL_PASSES = 3
"""Times that a call of PyTorch in a program moves its bytes, in kernels of PyTorch and copies for
them. Chosen between indexing, the maximum over a dimension before others, and batch norms of
channels in rows, which moved theirs 2, 4 and 8 times on an H100; a compiler's kernel does once."""

SCAN_PASSES, COLUMN_SCAN_PASSES = 4, 8
"""The same of running sums along rows, and along columns, of which each is a thread or is copied to
a row. On an H200, those of 4 x 16 x 512 x 273 elements took 40 along rows and 92 along columns."""

SUM_PASSES = 1.5
"""The same of sums over dimensions before the last: there, two of 67 MB took 49."""

FUNCTION_INSTRUCTIONS = 46
"""Instructions for each element of an exponential or an error function in a compiler's kernels. On
an H200, GELU of 17, 34 and 134 million numbers in 16 bits took 25, 51 and 195 us, and a norm of 34
million 33; SiLU of 34 million took 46, and with its gradient 84."""

SORTED_US = 4e-4
"""Microseconds for each of the indices at which PyTorch adds up in a fixed order: it sorts them.
Chosen so that `scatter_add` with 4.2 million indices takes 1.7 ms, as it did on an H100 (15 us with
atomics)."""

MASK_PASSES = 6
"""Times that the bytes of a mask's gradient are moved beside PyTorch's kernel, beyond a graph's: by
a kernel that bounds the mask, in the forward and the backward, and by copies. On an H100, a step of
T5 took 13.0 ms of kernels while small kernels of PyTorch moved 39 such passes, and 9.75 without.
"""

TOPK_US = 3e-3
"""Microseconds for each row of which PyTorch selects the largest numbers, in two kernels. On an
H200, those of 16384 rows of 8 took 48, and 2 in a kernel of a program."""

ATTENTION_TILE = 128
"""Queries and keys of a tile of attention: fewer take as long. On an H200, 25,088 heads with 16
queries and keys took 458 us, and products that store their scores 140."""

TRUTH_PASSES, COMPILED_TRUTH_PASSES = 11, 3
"""Times that the bytes of a mask of truth values are moved because PyTorch's attention reads
numbers, beside kernels of PyTorch and of a compiler. On an H200, one of 16.8 MB took 67 and 11 us.
"""

STATE_BYTES = 4 * 2
"""Bytes that a compiler moves for each state of a selective scan: in float32, stored and loaded."""

SSD_CHUNK, DELTA_CHUNK = 256, 64
"""Positions of a chunk of a state space model of heads in transformers, and of the delta rule."""


@dataclass(frozen=True)
class OperatorTimes:
    """The times of the operators of a function on a device, for sizes of its symbols."""

    device: Device
    shapes: SymbolicShapes
    sizes: Sizes
    _fused: dict[Hashable, float] = field(default_factory=dict[Hashable, float])
    """The times of GEMMs by their structure: the layers of a model repeat them."""

    @staticmethod
    def of(func: FuncOp, device: Device) -> "OperatorTimes":
        """Return the times of a function, with the usual sizes of symbols that have none."""
        shapes = SymbolicShapes(func)
        return OperatorTimes(device, shapes, Sizes(shapes.usual_tiles))

    def roofline(self, op: Operation) -> Roofline | None:
        """Return the time of an operator alone; None if it moves nothing.

        A scheduled `gemm.fused` is a kernel. Products of the block level are those of the library.
        """
        if not is_executed(op) or isinstance(op, CallOp):
            return None
        moved = self.shapes.traffic(op).evaluate(self.sizes)
        flops, device = self.flops(op), self.device
        is_f32 = bool(op.operands) and isinstance(element_type_of(op.operands[0]), Float32Type)
        tflops = device.vector_tflops if is_f32 else device.matrix_tflops
        if op.operands and is_float8(element_type_of(op.operands[0])):
            tflops *= device.float8_rate
        memory_us = moved / (1e3 * device.memory_gb_per_s)
        return Roofline(self._us(op), moved, flops, memory_us, flops / (1e6 * tflops))

    def _us(self, op: Operation) -> float:
        if isinstance(op, gemm.FusedOp):
            return self.fused_us(op)
        if isinstance(op, LIBRARY):
            return self.library_us(op, is_convolution=coda.PATCHES in op.attributes)
        if is_attention(op):
            kernel = self.kernel_us(self.traffic([op]))
            return max(self.attention_us(op), kernel) + self.masked_us(op)
        if isinstance(op, coda.ConvolutionOp | coda.GroupNormOp):
            return self.call_us(op)
        moved_before = self.bytes(before_kernel(op))
        return sum(self.kernel_us(bytes) for bytes in (self.traffic([op]), moved_before) if bytes)

    def flops(self, op: Operation) -> float:
        """Return the number of operations of the products of an operator; 0 if it has none."""
        if isinstance(op, gemm.FusedOp):
            return Workload.of(op, self.rows(op.x)).flops()
        if isinstance(op, LIBRARY):
            m, n, k = self.extents(op)
            return 2.0 * m * n * k
        return self._attention_products(op)

    def fused_us(self, op: gemm.FusedOp) -> float:
        """Return the time of a scheduled GEMM with its epilogue."""
        assert op.schedule is not None, "a scheduled program"
        rows = self.rows(op.x)
        key = (rows, *structure_of(op))
        if key not in self._fused:
            self._fused[key] = described(op, op.schedule, self.device, rows).us
        return self._fused[key]

    def kernel_us(self, bytes: int) -> float:
        """Return the time of a kernel that moves this number of bytes."""
        return kernel_us(bytes, self.device)

    def compiled_us(
        self,
        group: Iterable[Operation],
        repeated: Iterable[Operation] = (),
        readers: Container[Operation] = (),
    ) -> float:
        """Return the time of a compiler's kernel of the operators, which repeats others, and does
        not store what only `readers` read.
        """
        functions = filter(computes_function, (*group, *repeated))
        computed = sum(prod(self.extents_of(op.results[0])) for op in functions)
        per_us = 0.5e6 * self.device.vector_tflops
        computing = KERNEL_US + FUNCTION_INSTRUCTIONS * computed / per_us
        return max(self.kernel_us(self.traffic(group, repeated, readers)), computing)

    def moving_us(self, bytes: int) -> float:
        """Return the time of the bytes alone, from and to memory."""
        return moving_us(bytes, self.device)

    def library_us(
        self, op: Operation, *, is_convolution: bool = False, is_compiled: bool = False
    ) -> float:
        """Return the time of the library's product. Compilers pad operands if that is faster."""
        m, n, k = self.extents(op)
        if is_convolution:
            return 2 * m * n * k / (1e6 * CONVOLUTION_EFFICIENCY * self.device.matrix_tflops)
        element = element_bytes(op.operands[0].type)
        us = LibraryGemm(m, n, k, element, self.device, groups_of(op)).us
        if element != 2 or groups_of(op) > 1 or min(m, n, k) < EXTENTS[0]:
            return us
        of_rows = {self._columns(value) for value in (*op.operands[:2], op.results[0])}
        slow = us * max(slowdown(2 * extent) for extent in of_rows)
        if not is_compiled:
            return slow
        odd = {extent for extent in of_rows if slowdown(2 * extent) > 1}
        padded = [x for x in op.operands[:2] if not odd.isdisjoint(self.extents_of(x))]
        return min(slow, us + sum(self.kernel_us(2 * self.bytes([x])) for x in padded))

    def attention_us(self, op: Operation) -> float:
        """Return the time of the products of scores, or of their gradients."""
        is_own = isinstance(op, gemm.AttentionSumOp)
        if is_own and op.wgmma_obstacle is None:
            efficiency, narrow = OWN_GRADIENT_EFFICIENCY, OWN_GRADIENT_NARROW
        elif is_own:
            efficiency, narrow = OWN_ATTENTION_EFFICIENCY, OWN_NARROW
        else:
            is_gradient = isinstance(op, coda.AttentionGradOp)
            efficiency = ATTENTION_GRADIENT_EFFICIENCY if is_gradient else ATTENTION_EFFICIENCY
            narrow = NARROW
        products = self._attention_products(op) / (1e6 * efficiency * self.device.matrix_tflops)
        if isinstance(op, AttentionLike):
            products *= max(1.0, 128 / op.head_dim.value.data) ** narrow
        if isinstance(op, AttentionLike) and op.causal.value.data:
            # PyTorch reads a mask that hides those keys, too, and computes all scores.
            share = 1.0 if op.mask is not None else CAUSAL_SHARE
            products *= 2 * (OWN_CAUSAL_SHARE if is_own else share)
        if not isinstance(op, gemm.AttentionSumOp) or op.mask is None:
            return products
        *shared, of_queries, _ = op.mask_dims
        if isinstance(op, gemm.AttentionDmaskOp) and not all(shared):
            return products  # A tile reads its mask once.
        of_scores = NUMBERS_OF_SCORES if op.adds_mask else MASK_OF_SCORES
        return products * (of_scores if of_queries else MASK_OF_KEYS)

    def _attention_products(self, op: Operation) -> float:
        # One of two kernels of the gradients counts for both, but for an exact moment.
        is_dq = isinstance(op, gemm.AttentionDqOp)
        if not isinstance(op, AttentionLike) or (is_dq and op.exact_moment is None):
            return 0.0
        columns = op.head_dim.value.data + op.value_columns
        products = 2 * self._scores_of_tiles(op) * columns / (2 if op.causal.value.data else 1)
        if isinstance(op, coda.AttentionOp | gemm.FusedAttentionOp | gemm.AttentionDmaskOp):
            return products
        if is_dq:
            return EXACT_MOMENT_PRODUCTS * products
        queries, keys = (self.extents_of(x)[-2] for x in (op.q, op.k))
        heads, is_own = self.scores(op) // (queries * keys), isinstance(op, gemm.AttentionDkvOp)
        idle = idle_factor(heads, keys, *([queries] if is_own else []))
        return GRADIENT_PRODUCTS * idle * products

    def scores(self, op: AttentionLike) -> int:
        """Return the number of scores."""
        q, k = self.shapes.dims(op.q), self.shapes.dims(op.k)
        batch = q[:1] if len(q) == 3 else ()
        heads = EXTENT if op.heads == DYNAMIC_INDEX else op.heads
        return self._product((*batch, heads, q[-2], k[-2]))

    def _scores_of_tiles(self, op: AttentionLike) -> float:
        """Return the number of scores, at least those of one tile for each head."""
        extents = (self.extents_of(x)[-2] for x in (op.q, op.k))
        return self.scores(op) * prod(max(1.0, ATTENTION_TILE / extent) for extent in extents)

    def masked_us(self, op: Operation, *, is_compiled: bool = False) -> float:
        """Return what PyTorch's attention takes longer because of a mask, or stores and loads of
        scores where its fast kernels lack sinks, a cap or a window.

        cuDNN reads a mask of 16-bit attention whose gradient is not wanted. A program calls its
        forward, and for gradients other kernels, which give the same bits in every run.
        """
        if not isinstance(op, coda.AttentionOp | coda.AttentionGradOp):
            return 0.0
        if op.sinks is not None or op.softcap is not None or op.window is not None:
            return self.moving_us(SCORE_BYTES * self.scores(op))
        if op.mask is None:
            return 0.0
        us = self.moving_us(EFFICIENT_BYTES * self.scores(op))
        is_narrow = element_bytes(op.q.type) == 2
        if not isinstance(op, coda.AttentionGradOp):
            is_fast = op.lse is None or is_narrow
            us = (PYTORCH_MASK - 1) * self.attention_us(op) if is_fast else us
            if not is_compiled and (op.head_dim.value.data % 8 or op.value_columns % 8):
                us = self.moving_us(UNALIGNED_BYTES * self.scores(op))
            return us + self._truth_us(op.mask, is_compiled=is_compiled)
        if is_compiled and is_narrow and op.d_mask is None:
            return (PYTORCH_MASK_GRADIENT - 1) * self.attention_us(op)
        return GRADIENT_PRODUCTS * us

    def _truth_us(self, mask: SSAValue, *, is_compiled: bool) -> float:
        """Return the time of making numbers of a mask of truth values."""
        if element_type_of(mask) != IntegerType(1):
            return 0.0
        passes = COMPILED_TRUTH_PASSES if is_compiled else TRUTH_PASSES
        return self.moving_us(passes * self.bytes([mask]))

    def call_us(self, op: Operation, *, is_compiled: bool = False) -> float:
        """Return the time of an operator that is no GEMM, as a kernel or a call of PyTorch."""
        if is_product(op):
            is_own = not is_compiled and SmallProduct.of(op, self.shapes) is not None
            us = self.kernel_us(self.traffic([op]))
            return us if is_own else max(us, self._product_us(op, is_compiled=is_compiled))
        if isinstance(op, coda.ConvolutionOp):
            return self._convolution(op).us(is_compiled=is_compiled)
        if isinstance(op, coda.GroupNormOp):
            rows = self._product((self.shapes.dims(op.x)[0], op.groups.value.data))
            return group_norm_us(rows, self.bytes([op.x]), self.device)
        if isinstance(op, gemm.MapOp):
            elements = max(prod(self.extents_of(value)) for value in (*op.outputs, *op.ports))
            computing = KERNEL_US + elements * issuing_us(op.segment(), self.device)
            return max(self.kernel_us(self.traffic([op])), computing)
        passes = CALL_PASSES if isinstance(op, torch.CallOp) else 1
        if isinstance(op, coda.CumsumOp):
            is_of_rows = op.dim.value.data == len(shape_of(op.x)) - 1
            passes = SCAN_PASSES if is_of_rows else COLUMN_SCAN_PASSES
        if isinstance(op, coda.SumToOp) and not is_compiled:
            passes = SUM_PASSES
        if (norms := dims_of_norms(op, self.shapes)) is not None:
            passes = max(passes, NORM_ROWS / self._product(norms))
        return self.kernel_us(int(passes * self.traffic([op])))

    def _convolution(self, op: coda.ConvolutionOp) -> Convolution:
        x, weight, result = map(self.extents_of, (op.x, op.weight, op.result))
        is_last = isinstance(op.x.owner, coda.TransposeOp)
        element, groups = element_bytes(op.x.type), op.groups.value.data
        return Convolution(x, weight, result, groups, element, self.device, is_last=is_last)

    def _product_us(self, op: Operation, *, is_compiled: bool) -> float:
        """Return the time of a product of batches of matrices in the library. Compilers pad
        operands whose rows are not aligned.
        """
        x, w = op.operands[:2]
        (*batch, rows, columns), depth = self.extents_of(op.results[0]), self._columns(x)
        is_f32 = isinstance(element_type_of(x), Float32Type)
        extents, count = (rows, columns, depth), prod(batch)
        us = products_us(count, extents, self.device, is_f32=is_f32)
        odd = {extent for extent in extents if extent % ALIGNED}
        if is_f32 or not odd or 1 in extents:
            return us
        unaligned = max(slowdown(2 * extent) for extent in odd)
        slow = products_us(count, extents, self.device, is_f32=False, unaligned=unaligned)
        padded = [value for value in (x, w) if not odd.isdisjoint(self.extents_of(value)[-2:])]
        padding = sum(self.kernel_us(2 * self.bytes([value])) for value in padded)
        return min(slow, us + padding if is_compiled else inf)

    def fixed_order_us(self, op: Operation) -> float:
        """Return the microseconds that a call of PyTorch takes longer in a program, where it gives
        the same bits in every run, than in a graph of a compiler.

        The gradient of a mask has one block of threads for each head then, instead of one for each
        block of keys: 5.4 ms instead of 1.7 for 32 heads with 2048 x 2048 scores on an H100.
        """
        if isinstance(op, coda.AttentionGradOp) and op.d_mask is not None:
            keys = self.shapes.dims(op.k)[-2:-1]
            heads = self.scores(op) // (self._product(keys) * self.extents_of(op.q)[-2])
            idle = max(1.0, self.device.processors / heads)
            alone = self.attention_us(op) + self.masked_us(op)
            return (idle - 1) * alone + self.moving_us(MASK_PASSES * self.bytes([op.d_mask]))
        if isinstance(op, AnyCall) and determinism_of(op) != Determinism.GIVEN:
            indices = [x for x in op.operands if isinstance(element_type_of(x), IntegerType)]
            return SORTED_US * max((self._product(self.shapes.dims(x)) for x in indices), default=0)
        return 0.0

    def topk_us(self, op: Operation) -> float:
        """Return the microseconds of PyTorch's top-k of each row; 0 for other operators."""
        return TOPK_US * self.rows(op.x) if isinstance(op, coda.TopkOp) else 0.0

    def states(self, op: StateSpaceLike) -> int:
        """Return the number of states of all channels at all positions; for a state space model of
        heads, which PyTorch computes in chunks, the number of decays between positions of a chunk.
        """
        dims = self.shapes.dims(op.written)
        if not isinstance(op, coda.SSDLike | coda.DeltaRuleLike):
            return op.state_count * self._product(dims)
        chunk = SSD_CHUNK if isinstance(op, coda.SSDLike) else DELTA_CHUNK
        return op.heads * chunk * self._product(dims[:2])

    def stored_states_us(self, op: StateSpaceLike) -> float:
        """Return the microseconds of a state space model whose states, or decays, a compiler
        stores. For heads, it also multiplies and adds up in float32 what kernels compute as
        products.
        """
        states = self.states(op)
        has_heads = isinstance(op, coda.SSDLike | coda.DeltaRuleLike)
        products = op.state_count + op.head_columns if has_heads else 0
        scale = GRADIENT_PRODUCTS if isinstance(op, StateSpaceGradLike) else 1
        computing = 2 * scale * states * products / (1e6 * self.device.vector_tflops)
        return self.moving_us(states * STATE_BYTES) + computing

    def extents(self, op: Operation) -> tuple[int, int, int]:
        """Return M, N and K of a product of the block level, or of the library."""
        x, y = op.operands[0], op.results[0]
        if isinstance(op, coda.WeightGradientOp):
            return self.rows(y), self._columns(y), self.rows(x)
        if isinstance(op, coda.GroupedWeightGradientOp) or has_ragged_depth(op):
            return self.rows(y), self._columns(y), -(-self.rows(x) // groups_of(op))
        return self.rows(x), self._columns(y), self._columns(x)

    def rows(self, value: SSAValue) -> int:
        """Return the product of all extents except the last."""
        return self._product(self.shapes.dims(value)[:-1])

    def _columns(self, value: SSAValue) -> int:
        return self._product(self.shapes.dims(value)[-1:])

    def extents_of(self, value: SSAValue) -> list[int]:
        """Return the extents of a tensor."""
        return [self._product((dim,)) for dim in self.shapes.dims(value)]

    def _product(self, dims: Dims) -> int:
        return SymbolicSize.product(dims).evaluate(self.sizes)

    def traffic(
        self,
        group: Iterable[Operation],
        repeated: Iterable[Operation] = (),
        readers: Container[Operation] = (),
    ) -> int:
        """Return the bytes that one kernel of the operators reads and writes. It computes what is
        `repeated` from other tensors again, instead of reading it, and does not store what only
        `readers` read.
        """
        return traffic(group, self.shapes, self.sizes, repeated, readers)

    def bytes(self, values: Iterable[SSAValue]) -> int:
        """Return the bytes of the values, each counted once."""
        return sum(self.shapes.bytes(value).evaluate(self.sizes) for value in set(values))

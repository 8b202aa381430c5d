"""Vectors that the host program computes from weights once, and keeps until these change."""

import gc
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.emitted import load_program
from torch.multiprocessing.reductions import StorageWeakRef

from coda_ir.api import parse
from coda_ir.lowering import Lowering
from coda_ir.options import CompileOptions

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.default_generator.manual_seed(6)


class TestPackedWeights:
    TEXT = """
        func.func @f(%w : tensor<70x40xbf16>, %v : tensor<40xbf16>, %t : tensor<40x70xbf16>)
            -> (tensor<70xf32>, tensor<70xf32>) {
          %a = gemm.pack_weight nk %w, %v : (tensor<70x40xbf16>, tensor<40xbf16>) -> tensor<70xf32>
          %b = gemm.pack_weight kn %t, %v : (tensor<40x70xbf16>, tensor<40xbf16>) -> tensor<70xf32>
          %c = coda.add %a, %b : (tensor<70xf32>, tensor<70xf32>) -> tensor<70xf32>
          %d = coda.sub %a, %b : (tensor<70xf32>, tensor<70xf32>) -> tensor<70xf32>
          func.return %c, %d : tensor<70xf32>, tensor<70xf32>
        }"""

    @staticmethod
    def weights() -> list[torch.Tensor]:
        return [
            torch.randn(70, 40).bfloat16(),
            torch.randn(40).bfloat16(),
            torch.randn(40, 70).bfloat16(),
        ]

    @staticmethod
    def check(run: Any, w: torch.Tensor, v: torch.Tensor, t: torch.Tensor) -> None:
        a, b = w.double() @ v.double(), v.double() @ t.double()
        c, d = run(w, v, t)
        torch.testing.assert_close(c, (a + b).float(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(d, (a - b).float(), rtol=1e-4, atol=1e-4)

    def entries(self, run: Any) -> Any:
        return run.__globals__["PACKED"].entries

    def test_they_are_computed_once(self) -> None:
        run = load_program(self.TEXT)
        weights = self.weights()
        self.check(run, *weights)
        kept = dict(self.entries(run))
        self.check(run, *weights)
        assert len(kept) == 2
        assert all(self.entries(run)[key] is entry for key, entry in kept.items())

    def test_an_update_in_place_is_seen(self) -> None:
        run = load_program(self.TEXT)
        weights = self.weights()
        self.check(run, *weights)
        weights[0].mul_(2)
        self.check(run, *weights)
        with torch.no_grad():
            weights[1][3] = 100.0
        self.check(run, *weights)
        with torch.inference_mode():
            weights[2].zero_()
        self.check(run, *weights)

    def test_a_storage_that_was_swapped_is_seen(self) -> None:
        run = load_program(self.TEXT)
        weights = self.weights()
        self.check(run, *weights)
        weights[0].data = torch.randn(70, 40).bfloat16()
        self.check(run, *weights)

    def test_layers_do_not_mix(self) -> None:
        run = load_program(self.TEXT)
        layers = [self.weights() for _ in range(3)]
        for _ in range(2):
            for weights in layers:
                self.check(run, *weights)
        assert len(self.entries(run)) == 6

    def test_an_entry_goes_with_its_weight(self) -> None:
        run = load_program(self.TEXT)
        for _ in range(5):
            self.check(run, *self.weights())
        assert len(self.entries(run)) == 0

    def test_inference_tensors_are_packed_in_each_call(self) -> None:
        run = load_program(self.TEXT)
        with torch.inference_mode():
            weights = self.weights()
            self.check(run, *weights)
            weights[0].mul_(3)
            self.check(run, *weights)
        assert len(self.entries(run)) == 0

    def test_normal_tensors_in_inference_mode_are_kept(self) -> None:
        run = load_program(self.TEXT)
        weights = self.weights()
        with torch.inference_mode():
            self.check(run, *weights)
            self.check(run, *weights)
        assert len(self.entries(run)) == 2

    def test_strided_weights_are_kept(self) -> None:
        run = load_program(self.TEXT)
        w, v, t = self.weights()
        strided = [t.t(), torch.randn(80).bfloat16()[::2].copy_(v), w.t()]
        self.check(run, *strided)
        self.check(run, *strided)
        assert len(self.entries(run)) == 2

    def test_memory_of_a_swapped_storage_is_released(self) -> None:
        run = load_program(self.TEXT)
        weights = self.weights()
        self.check(run, *weights)
        storage = StorageWeakRef(weights[0].untyped_storage())
        weights[0].data = torch.randn(70, 40).bfloat16()
        gc.collect()  # Triton's interpreter leaves cycles.
        assert storage.expired()
        self.check(run, *weights)

    def test_scaled_weights(self) -> None:
        text = """
            func.func @f(%x : tensor<5x40xbf16>, %w : tensor<70x40xbf16>, %v : tensor<40xbf16>,
                         %t : tensor<40x70xbf16>) -> (tensor<5x70xbf16>, tensor<5x70xbf16>) {
              %s = gemm.scale_weight nk %w, %v
                  : (tensor<70x40xbf16>, tensor<40xbf16>) -> tensor<70x40xbf16>
              %a = coda.linear %x, %s
                  : (tensor<5x40xbf16>, tensor<70x40xbf16>) -> tensor<5x70xbf16>
              %r = gemm.scale_weight kn %t, %v
                  : (tensor<40x70xbf16>, tensor<40xbf16>) -> tensor<40x70xbf16>
              %b = coda.matmul %x, %r
                  : (tensor<5x40xbf16>, tensor<40x70xbf16>) -> tensor<5x70xbf16>
              func.return %a, %b : tensor<5x70xbf16>, tensor<5x70xbf16>
            }"""
        lowered = Lowering(parse(text), CompileOptions("target=interpreter")).module("scheduled")
        run = load_program(str(lowered))
        x, (w, v, t) = torch.randn(5, 40).bfloat16(), self.weights()
        for _ in range(2):
            a, b = run(x, w, v, t)
            torch.testing.assert_close(a, F.linear(x, w * v), rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(b, x @ (t * v[:, None]), rtol=2e-2, atol=2e-2)
            w.mul_(2)
        assert len(self.entries(run)) == 2

    def test_values_that_are_computed_are_not_kept(self) -> None:
        text = """
            func.func @f(%w : tensor<7x40xf32>, %v : tensor<40xf32>) -> tensor<7xf32> {
              %e = coda.exp %v : (tensor<40xf32>) -> tensor<40xf32>
              %a = gemm.pack_weight nk %w, %e : (tensor<7x40xf32>, tensor<40xf32>) -> tensor<7xf32>
              func.return %a : tensor<7xf32>
            }"""
        run = load_program(text)
        assert "PACKED" not in run.__globals__
        w, v = torch.randn(7, 40), torch.randn(40)
        torch.testing.assert_close(run(w, v), w @ v.exp())

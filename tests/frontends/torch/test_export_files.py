"""Exported models as callables and as files: the model's own signature, and clear refusals."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from support.emitted import module_of
from torch import nn
from torch.export import Dim

import coda_ir
from coda_ir import CodaError, ExportedModel
from coda_ir.remarks import format_location, module_name

# PyTorch warns of its own use of LeafSpec.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Model(nn.Module):
    """Structured inputs and outputs, an option, tied and strided weights, a call of PyTorch."""

    scale: torch.Tensor

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)
        self.head.weight = self.table.weight
        self.mix = nn.Parameter(torch.randn(8, 8).t().to(torch.bfloat16))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(
        self,
        ids: torch.Tensor,
        extra: dict[str, torch.Tensor],
        flip: bool = True,
        *,
        power: int = 1,
    ) -> Any:
        h = self.table(ids) * self.scale**power + extra["bias"]
        mixed = h.to(torch.bfloat16) @ self.mix
        logits = self.head(F.silu(mixed.float()))
        return {"logits": logits, "sums": (logits.cumsum(-1), None, "done")}


BATCH, TIME = Dim("batch"), Dim("time", max=64)


@pytest.fixture(scope="module")
def model() -> Model:
    torch.default_generator.manual_seed(0)
    return Model().eval()


def example(batch: int = 2, time: int = 3) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return torch.randint(0, 11, (batch, time)), {"bias": torch.randn(time, 8)}


@pytest.fixture(scope="module")
def exported(model: Model) -> ExportedModel:
    shapes = {
        "ids": {0: BATCH, 1: TIME},
        "extra": {"bias": {0: TIME}},
        "flip": None,
        "power": None,
    }
    ids, extra = example()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return coda_ir.export(
            model, (ids, extra), {"flip": True, "power": 2}, dynamic_shapes=shapes
        )


@pytest.fixture
def saved(exported: ExportedModel, tmp_path: Path) -> Path:
    exported.save(tmp_path / "model.mlir")
    return tmp_path / "model.mlir"


def assert_same(actual: Any, wanted: Any) -> None:
    assert actual["sums"][1:] == wanted["sums"][1:]
    for got, right in zip(
        (actual["logits"], actual["sums"][0]), (wanted["logits"], wanted["sums"][0]), strict=True
    ):
        torch.testing.assert_close(got, right.detach(), rtol=5e-2, atol=5e-2)


WRONG_CALLS: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda f, i, e: f(i), "is missing the argument extra"),
    (lambda f, i, e: f(), "is missing the argument ids"),
    (lambda f, i, e: f(i, e, ids=i), "given both by position and by name|without the argument"),
    (lambda f, i, e: f(i, e, True, 2), "takes . arguments by position, got 4"),
    (lambda f, i, e: f(i, e, mask=i), "without the argument mask"),
    (lambda f, i, e: f(i, e, False), "flip is False, but the model was exported with True"),
    (lambda f, i, e: f(i, e, power=i), "power is a tensor, but"),
    (lambda f, i, e: f(i, [e["bias"]]), "^extra is a list, expected a dict"),
    (lambda f, i, e: f(i, {"other": e["bias"]}), "^extra is missing the key 'bias'"),
    (lambda f, i, e: f(i, {**e, "other": i}), "^extra has the key 'other', which"),
    (lambda f, i, e: f(i, {"bias": [i, i]}), r"^extra\['bias'\] is a list, expected one value"),
    (lambda f, i, e: f(i.float(), e), "argument ids has element type float32"),
    (lambda f, i, e: f(i[0], e), "argument ids has shape"),
    (lambda f, i, e: f(i, {"bias": e["bias"][:2]}), "symbol time is bound to"),
    (lambda f, i, e: f("text", e), "argument ids is of type str"),
]


class TestCompiled:
    @pytest.mark.slow
    def test_it_is_called_like_the_model(self, exported: ExportedModel, model: Model):
        compiled = exported.compile(target="reference", device="cpu")
        for sizes in ((2, 3), (1, 1), (5, 7)):
            ids, extra = example(*sizes)
            wanted = model(ids, extra, power=2)
            assert_same(compiled(ids, extra), wanted)
            assert_same(compiled(ids, extra, True, power=2), wanted)
            assert_same(compiled(extra=extra, ids=ids, flip=True), wanted)

    def test_triton(self, exported: ExportedModel, model: Model):
        compiled = exported.compile(device="cpu")
        ids, extra = example(2, 5)
        assert_same(compiled(ids, extra), model(ids, extra, power=2))
        assert compiled.kernels and compiled.kernels[0] in compiled.source
        assert any(remark.kind == "passed" for remark in compiled.remarks)

    def test_weights_are_followed(self, exported: ExportedModel, model: Model):
        compiled = exported.compile(target="reference", device="cpu")
        ids, extra = example()
        before = compiled(ids, extra)["logits"]
        with torch.no_grad():
            model.head.bias.add_(1)
        try:
            torch.testing.assert_close(compiled(ids, extra)["logits"], before + 1)
        finally:
            with torch.no_grad():
                model.head.bias.sub_(1)

    def test_what_is_computed_from_weights_is_kept(self):
        layers = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16)).bfloat16()
        x = torch.randn(3, 16).bfloat16()
        compiled = coda_ir.export(layers, (x,)).compile(device="cpu")
        generated: Any = module_of(compiled.function)
        compiled(x)
        kept: dict[Any, Any] = dict(generated.PACKED.entries)
        compiled(x)
        assert kept
        assert all(generated.PACKED.entries[key] is entry for key, entry in kept.items())

    @pytest.mark.parametrize(
        ("call", "message"),
        WRONG_CALLS,
    )
    def test_wrong_calls(self, exported: ExportedModel, call: Callable[..., Any], message: str):
        compiled = exported.compile(target="reference", device="cpu")
        with pytest.raises(CodaError, match=message) as caught:
            call(compiled, *example())
        assert caught.value.remedy

    def test_sizes_beyond_the_range(self, exported: ExportedModel):
        compiled = exported.compile(target="reference", device="cpu")
        with pytest.raises(CodaError, match=r"time <= 64\), but in this call time is 65"):
            compiled(*example(1, 65))


class TestNames:
    def test_of_the_user(self, exported: ExportedModel):
        text = str(exported.module)
        assert '"batch", "time"' in text and "s0" not in text

    def test_of_others_in_order_of_appearance(self):
        class Sizes(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return x.cumsum(0).reshape(x.shape[0] * x.shape[1], -1) @ y

        dynamic: Any = Dim.DYNAMIC
        shapes = ({0: dynamic, 1: dynamic}, {1: dynamic})
        inputs = (torch.randn(3, 4, 8), torch.randn(8, 5))
        exported = coda_ir.export(Sizes(), inputs, dynamic_shapes=shapes)
        assert '"s0", "s1", 8' in str(exported.module) and '[8 : i64, "s2"]' in str(exported.module)
        compiled = exported.compile(target="reference", device="cpu")
        inputs = (torch.randn(2, 7, 8), torch.randn(8, 1))
        torch.testing.assert_close(compiled(*inputs), Sizes()(*inputs))

    def test_words_of_the_language_are_not_symbols(self):
        shapes = ({0: Dim("weight")},)
        exported = coda_ir.export(nn.Linear(4, 4), (torch.randn(3, 4),), dynamic_shapes=shapes)
        assert '["weight_0", 4 : i64]' in str(exported.module)


WRONG_WEIGHTS: list[tuple[Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], str]] = [
    (lambda w: {"a": torch.zeros(1)}, "lacks 4 of 4 weights"),
    (
        lambda w: {**w, "scale": torch.zeros(3)},
        r"scale is float32\[3\], expected float32\[\]",
    ),
    (lambda w: {**w, "mix": w["mix"].float()}, "mix is float32.*, expected bfloat16"),
]


class TestFiles:
    def test_round_trip(self, saved: Path, exported: ExportedModel, model: Model):
        loaded = coda_ir.load(saved)
        assert str(loaded.module) == str(exported.module)
        assert list(loaded.weights) == list(exported.weights)
        for name, weight in loaded.weights.items():
            assert torch.equal(weight, exported.weights[name])
            assert weight.dtype == exported.weights[name].dtype
        ids, extra = example(3, 4)
        compiled = loaded.compile(target="reference")
        assert_same(compiled(ids, extra=extra), model(ids, extra, power=2))

    def test_places_and_module_names_are_kept(self, saved: Path, exported: ExportedModel):
        before, after = (
            [(format_location(op.location), module_name(op.location)) for op in model.module.walk()]
            for model in (exported, coda_ir.load(saved))
        )
        known = [place for place in before if place[0] != "<unknown>"]
        assert [place for place in after if place in known] == known
        assert {name for _, name in known} >= {"table", "head", None}
        assert any(place.startswith(__file__) for place, _ in known)

    def test_weights_elsewhere(self, exported: ExportedModel, tmp_path: Path):
        coda_ir.save(exported, tmp_path / "a.mlir", tmp_path / "b.safetensors")
        save_file(
            {n: w.detach().contiguous() for n, w in exported.weights.items()}
            | {"unused": torch.zeros(3)},
            tmp_path / "c.safetensors",
        )
        assert not (tmp_path / "a.safetensors").exists()
        assert set(coda_ir.load(tmp_path / "a.mlir", tmp_path / "b.safetensors").weights) == set(
            coda_ir.load(tmp_path / "a.mlir", tmp_path / "c.safetensors").weights
        )

    def test_a_model_without_weights(self, tmp_path: Path):
        coda_ir.export(nn.SiLU(), (torch.randn(3),)).save(tmp_path / "silu.mlir")
        assert [path.name for path in tmp_path.iterdir()] == ["silu.mlir"]
        x = torch.randn(3)
        compiled = coda_ir.load(tmp_path / "silu.mlir").compile(target="reference", device="cpu")
        torch.testing.assert_close(compiled(x), F.silu(x))

    def test_shared_storage_is_written(self, tmp_path: Path):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                base = torch.randn(4, 8)
                self.a, self.b = nn.Parameter(base[:, :4]), nn.Parameter(base[:, 4:])

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x @ self.a + x @ self.b

        model, x = Views(), torch.randn(3, 4)
        coda_ir.export(model, (x,)).save(tmp_path / "views.mlir")
        compiled = coda_ir.load(tmp_path / "views.mlir").compile(target="reference")
        torch.testing.assert_close(compiled(x), model(x).detach())

    @pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, -1])
    def test_damaged_weights(self, saved: Path, cut: int):
        path = saved.with_suffix(".safetensors")
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(CodaError, match=r"model\.safetensors"):
            coda_ir.load(saved)

    def test_missing_files(self, saved: Path, tmp_path: Path):
        with pytest.raises(CodaError, match=r"other\.mlir"):
            coda_ir.load(tmp_path / "other.mlir")
        saved.with_suffix(".safetensors").unlink()
        with pytest.raises(CodaError, match="the weight file is missing"):
            coda_ir.load(saved)

    @pytest.mark.parametrize("name", ["model.coda", "model", "model.pt"])
    def test_other_kinds_of_files(self, exported: ExportedModel, tmp_path: Path, name: str):
        with pytest.raises(CodaError, match="unknown file type"):
            exported.save(tmp_path / name)
        with pytest.raises(CodaError, match="unknown file type"):
            coda_ir.load(tmp_path / name)

    def test_a_folder_that_does_not_exist(self, exported: ExportedModel, tmp_path: Path):
        with pytest.raises(CodaError, match="cannot write the file"):
            exported.save(tmp_path / "nowhere" / "model.mlir")

    @pytest.mark.parametrize(
        ("change", "message"),
        WRONG_WEIGHTS,
    )
    def test_weights_that_do_not_fit(self, saved: Path, change: Callable[..., Any], message: str):
        weights = coda_ir.load(saved).weights
        save_file(change(weights), saved.with_suffix(".safetensors"))
        with pytest.raises(CodaError, match=message):
            coda_ir.load(saved)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("coda.call", "coda.other", "lacks the attribute coda.call"),
            (r"\22format\22:3", r"\22format\22:9", "has format 9"),
            (r"\22parameters\22", r"\22parametres\22", "the saved signature is corrupt"),
            (r"\22result\22:1", r"\22result\22:7", "the model returns result 7"),
            (r"builtins.dict", r"some.module.Output", "import some.module before"),
            ('coda.name = "ids"', 'coda.name = "tokens"', "the function takes tokens"),
            (r"\22name\22:\22ids\22", r"\22nome\22:\22ids\22", "the saved signature"),
        ],
    )
    def test_changed_texts(self, saved: Path, old: str, new: str, message: str):
        text = saved.read_text()
        old, new = (
            part.replace(r"\22", '\\"') if r"\22" not in text else part for part in (old, new)
        )
        assert old in text
        saved.write_text(text.replace(old, new))
        with pytest.raises(CodaError, match=message):
            coda_ir.load(saved)


class TestWrongModels:
    def test_kinds(self):
        function: Any = torch.sin
        with pytest.raises(CodaError, match=r"expected a torch\.nn\.Module"):
            coda_ir.export(function, (torch.randn(3),))
        x: Any = torch.randn(3)
        with pytest.raises(CodaError, match="expected a tuple of the model's arguments"):
            coda_ir.export(nn.SiLU(), x)

    def test_wrong_number_of_arguments(self):
        with pytest.raises(CodaError, match="forward of SiLU cannot be called in this way"):
            coda_ir.export(nn.SiLU(), ())


class AskingForSizes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        return 2 * x if rows % 2 == 0 and rows * columns > 10 and rows + columns < 11 else -x


@pytest.mark.slow
def test_conditions_on_sizes(tmp_path: Path):
    """Other sizes would take another branch of the model."""
    sizes = ({0: Dim.AUTO, 1: Dim.AUTO},)
    exported = coda_ir.export(AskingForSizes(), (torch.ones(6, 3),), dynamic_shapes=sizes)
    exported.save(tmp_path / "model.mlir")
    for model in (exported, coda_ir.load(tmp_path / "model.mlir")):
        compiled = model.compile(target="reference")
        x = torch.randn(4, 5)
        assert torch.equal(compiled(x), 2 * x)
        same = coda_ir.compile(model.module, target="reference")
        for shape, unmet in (((3, 5), r"\(s0 % 2\) == 0"), ((2, 5), "> 10"), ((4, 8), "< 11")):
            message = f"for sizes with .*{unmet}.* in this call s"
            for function in (compiled, same):
                with pytest.raises(CodaError, match=message):
                    function(torch.randn(shape))
    with pytest.raises(CodaError, match="asks about a size that is a sum"):
        coda_ir.export(AskingForSizes(), (torch.ones(6, 3),), dynamic_shapes=({0: Dim("B") + 1},))


@pytest.mark.parametrize("model", [nn.Linear(4, 4), nn.SiLU()])
def test_an_unknown_device_is_no_fault_of_the_file(tmp_path: Path, model: nn.Module):
    path = tmp_path / "model.mlir"
    coda_ir.save(coda_ir.export(model, (torch.ones(2, 4),)), path)
    with pytest.raises(CodaError, match="unknown device 'gpu'"):
        coda_ir.load(path, device="gpu")

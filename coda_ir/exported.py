"""Exported models: a module of the IR with the model's weights, which can be compiled and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

import torch
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from coda_ir.api import CompiledFunction, compile, find_entry, parse
from coda_ir.calls.arguments import TensorSpec, format_dims, short_name
from coda_ir.calls.tree import CallTree
from coda_ir.defects import Described, Errors, WithFallback
from coda_ir.devices import resolve_device
from coda_ir.diagnostics import (
    FileError,
    ModelError,
    OptionError,
    expect_kind,
    expect_names,
)
from coda_ir.mlir.writer import located_text
from coda_ir.options import ProgramOptions, TrainingOptions
from coda_ir.pages import page_of
from coda_ir.remarks import Remark
from coda_ir.signatures import signature_of
from coda_ir.sources import check_folder, write_file
from coda_ir.untraced import untraced

CALL_ATTRIBUTE = "coda.call"
"""Attribute of a saved module: the text of its CallTree."""


class ExportedModel:
    """A model as one function of the IR, with the tensors of its weights by name.

    The weights of a model that was exported in this process are its own tensors, not copies.
    `remarks` report which of the model's patterns became operators.
    """

    def __init__(
        self,
        module: ModuleOp,
        weights: Mapping[str, torch.Tensor],
        tree: CallTree,
        remarks: Sequence[Remark] = (),
    ):
        self.module = module
        self.weights: dict[str, torch.Tensor] = dict(weights)
        self.tree = tree
        self.remarks: tuple[Remark, ...] = tuple(remarks)

    def __repr__(self) -> str:
        return f"<ExportedModel {signature_of(find_entry(self.module))}>"

    def arguments(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        """Return the tensors of the function, in order, for a call of the model."""
        return [*self.tree.flatten(args, kwargs), *self.weights.values()]

    def result(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the results of the function in the structure that the model returns."""
        return self.tree.unflatten(tensors)

    def compile(
        self, *, errors: Errors = "fallback", **options: Unpack[ProgramOptions]
    ) -> CompiledModel:
        """Return a callable with the arguments and results of the model.

        `options` are those of `coda_ir.compile`; `device` defaults to the device of the weights. If
        a call fails because of a defect in this package, the target `reference` runs it, with a
        warning; with `errors="raise"` the error is raised. Raises CodaError for a model that cannot
        be compiled, and for an unknown option.
        """
        _check_names(options)
        if options.get("device") is None:
            options["device"] = self._device()
        compiled = partial(compile, self.module, **options)
        if errors == "raise" or options.get("target") == "reference":
            return CompiledModel(compiled(), self.weights, self.tree)

        @cache
        def plain() -> CompiledFunction:
            return compile(self.module, target="reference", device=options.get("device"))

        guarded = WithFallback[[], CompiledFunction](compiled, plain, partial(_described, plain))
        return CompiledModel(guarded(), self.weights, self.tree, plain)

    def to(self, device: str | torch.device) -> ExportedModel:
        """Return the model with its weights on another device; weights already there are shared.

        Raises CodaError for a device that does not exist on this machine.
        """
        place = resolve_device(device)
        weights = {name: weight.to(place) for name, weight in self.weights.items()}
        return ExportedModel(self.module, weights, self.tree, self.remarks)

    def _device(self) -> torch.device | None:
        devices = {weight.device for weight in self.weights.values() if weight.dim()}
        if len(devices) > 1:
            raise ModelError(
                f"the model has weights on {len(devices)} devices: "
                f"{', '.join(sorted(map(str, devices)))}",
                "move the model to one device",
            )
        return next(iter(devices), None)

    def explore(
        self,
        path: str | os.PathLike[str],
        *,
        arch: str | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Write a page (.html) that shows the kernels of the model, the operators in each, and the
        reasons for refusals, beside the model's source and the IR. The page needs no network.

        Times are estimated for `arch`, such as `sm_90`, and for `sizes` of the model's symbols. If
        `arch` is given, the page also has its machine code. Raises CodaError for an unknown `arch`
        or symbol, and if the page cannot be written.
        """
        write_file(Path(path), page_of(self.module, arch, sizes).encode())

    def save(
        self, path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None
    ) -> None:
        """Write the module to `path` (.mlir) and the weights to `weights` (.safetensors), by
        default beside it. Operators keep their locations in the model's source. Raises CodaError
        for other suffixes, and if the model cannot be written.
        """
        text_file, tensor_file = _file_names(path, weights)
        saved = self.module.clone()
        saved.attributes[CALL_ATTRIBUTE] = StringAttr(self.tree.dumps())
        if self.weights:
            save_weights(tensor_file, self.weights)
        # The last one: where the program is, its weights are.
        write_file(text_file, located_text(saved).encode())


class CompiledModel:
    """A compiled model, with the arguments and the return structure of the model.

    Each call reads the weights, so in-place updates take effect. Inputs that require gradients are
    refused outside of `torch.no_grad`; weights are treated as constants. `function` is the
    compiled function of the inputs and weights, with `prepare`, `ir` and `resources`.
    """

    def __init__(
        self,
        function: CompiledFunction,
        weights: Mapping[str, torch.Tensor],
        tree: CallTree,
        plain: Callable[[], CompiledFunction] | None = None,
    ):
        """Set up the model; `plain` makes the replacement of one that fails by a defect."""
        self.function = function
        self.weights = weights
        self._tree = tree
        self._run: Callable[..., Any] = function
        if plain is not None:
            described = partial(_described, plain)
            self._run = WithFallback(function, lambda *tensors: plain()(*tensors), described)

    def __repr__(self) -> str:
        return f"<CompiledModel {self.function.name} for {self.function.target}>"

    @untraced
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self._tree.flatten(args, kwargs)
        tensors_in = [x for x in inputs if isinstance(x, torch.Tensor)]
        wants_gradients = torch.is_grad_enabled() and any(x.requires_grad for x in tensors_in)
        # The weights themselves, not aliases: what is packed is found by their identity. With
        # gradients enabled, the function refuses the inputs that want them.
        with torch.set_grad_enabled(wants_gradients):
            tensors = [*inputs, *self.weights.values()]
            results: Any = self._run(*tensors)
        return self._tree.unflatten((results,) if isinstance(results, torch.Tensor) else results)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of the passes: fused operators, refusals, and reasons."""
        return self.function.remarks

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the generated kernels; () for the target `reference`."""
        return self.function.kernels

    @property
    def source(self) -> str:
        """The text of the emitted Triton module."""
        return self.function.source


def _check_names(options: Mapping[str, object]) -> None:
    """Raise CodaError for an option that `compile` does not have: that is no defect."""
    known = ProgramOptions.__annotations__
    for name in options:
        if name in ("training", *TrainingOptions.__annotations__) and name not in known:
            remedy = "train with torch.compile, or compile the module: exported.module"
            raise OptionError(f"unknown option '{name}'", remedy)
    expect_names(options, known)


def _described(plain: Callable[[], CompiledFunction]) -> Described:
    name, remedy = f"the exported model {plain().name}", 'compile(errors="raise")'
    return Described(name, "the target reference", remedy)


def save(
    model: ExportedModel,
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
) -> None:
    """Write an exported model to files that `load` reads; see `ExportedModel.save`."""
    remedy = "write coda_ir.save(coda_ir.export(model, args), path)"
    expect_kind("the model", model, ExportedModel, remedy)
    model.save(path, weights)


def load(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    device: str | torch.device = "cpu",
) -> ExportedModel:
    """Load the model that `ExportedModel.save` wrote, with its weights on `device`.

    `weights` defaults to the .safetensors file beside `path`; any file with tensors of the same
    names and types is accepted. Raises CodaError for missing or corrupt files, and for weights of
    other shapes or types.
    """
    text_file, tensor_file = _file_names(path, weights)
    module = parse(text_file)
    text = module.attributes.pop(CALL_ATTRIBUTE, None)
    if not isinstance(text, StringAttr):
        raise FileError(
            f"{text_file} is not a saved model: it lacks the attribute {CALL_ATTRIBUTE}",
            "use coda_ir.compile for a program without weights",
        )
    func, tree = find_entry(module), CallTree.loads(text.data)
    _check_tree(func, tree, text_file)
    specs = [spec for spec in signature_of(func).arguments if spec.is_weight]
    return ExportedModel(module, load_weights(tensor_file, specs, device), tree)


def _check_tree(func: FuncOp, tree: CallTree, path: Path) -> None:
    """Raise CodaError if a module was changed so that it no longer fits its call tree."""
    signature = signature_of(func)
    inputs = [spec.name for spec in signature.arguments if not spec.is_weight]
    weights_last = [spec.is_weight for spec in signature.arguments]
    named = [leaf.name for leaf in tree.inputs if leaf.name is not None]
    results = {leaf.result for leaf in tree.outputs if leaf.result is not None}
    if inputs != named or weights_last != sorted(weights_last):
        raise FileError(
            f"{path}: the function takes {', '.join(inputs) or 'nothing'}, but the model "
            f"{', '.join(named) or 'nothing'}",
            "do not add, remove or reorder the arguments of a saved model",
        )
    if not all(0 <= number < len(signature.results) for number in results):
        raise FileError(
            f"{path}: the function has {len(signature.results)} results, but the model returns "
            f"result {max(results)}",
            "do not change the results of a saved model",
        )
    for leaf in tree.outputs:
        rank = None if leaf.result is None else len(signature.results[leaf.result].dims)
        if leaf.order is not None and len(leaf.order) != rank:
            raise FileError(
                f"{path}: result {leaf.result} has {rank} dimensions, but the model returns "
                f"{len(leaf.order)}",
                "do not change the results of a saved model",
            )


def save_weights(path: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Write weights as .safetensors. Raises CodaError if the file cannot be written."""
    from safetensors import SafetensorError

    safetensors: Any = import_module("safetensors.torch")
    # Weights may be views of one another or strided, which safetensors refuses.
    pointers = [weight.untyped_storage().data_ptr() for weight in weights.values()]
    dense = {
        name: weight.detach().contiguous()
        if pointers.count(weight.untyped_storage().data_ptr()) == 1
        else weight.detach().clone(memory_format=torch.contiguous_format)
        for name, weight in weights.items()
    }
    check_folder(path)
    try:
        safetensors.save_file(dense, path)
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path}: cannot write the file: {error}") from error


def load_weights(
    path: Path, specs: Sequence[TensorSpec], device: str | torch.device = "cpu"
) -> dict[str, torch.Tensor]:
    """Return the weights that `specs` names, in order. Raises CodaError if one does not fit."""
    from safetensors import SafetensorError, safe_open

    place = str(resolve_device(device))
    if not specs:
        return {}
    if not path.is_file():
        raise FileError(
            f"{path}: the weight file is missing",
            "pass the path of a .safetensors file that has the weights: load(path, weights)",
        )
    opener: Any = safe_open
    try:
        with opener(path, framework="pt", device=place) as file:
            names = set(file.keys())
            missing = [spec.name for spec in specs if spec.name not in names]
            if missing:
                raise FileError(
                    f"{path} lacks {len(missing)} of {len(specs)} weights: "
                    f"{', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}",
                    "pass the weights of the exported model",
                )
            weights = {spec.name: file.get_tensor(spec.name) for spec in specs}
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path}: {error}", "save the weights again") from error
    for spec in specs:
        _check_weight(path, spec, weights[spec.name])
    return weights


def _check_weight(path: Path, spec: TensorSpec, weight: torch.Tensor) -> None:
    fits = tuple(weight.shape) == spec.dims and weight.dtype == spec.dtype
    if not fits:
        raise FileError(
            f"{path}: {spec.name} is {short_name(weight.dtype)}{format_dims(weight.shape)}, "
            f"expected {short_name(spec.dtype)}{format_dims(spec.dims)}",
            "pass the weights of the exported model",
        )


def _file_names(
    path: str | os.PathLike[str], weights: str | os.PathLike[str] | None
) -> tuple[Path, Path]:
    expect_kind("the path", path, (str, os.PathLike), "pass the name of a file .mlir")
    text_file = Path(path)
    if text_file.suffix != ".mlir":
        raise FileError(
            f"{text_file}: unknown file type", "name it *.mlir; coda-export writes *.coda"
        )
    tensor_file = text_file.with_suffix(".safetensors") if weights is None else Path(weights)
    if tensor_file.suffix != ".safetensors":
        raise FileError(f"{tensor_file}: unknown file type", "name it *.safetensors")
    return text_file, tensor_file

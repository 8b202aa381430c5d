"""No module uses what PyTorch, Triton and xDSL do not document, but for the accesses listed here.

A comment beside each access says what happens where a version lacks the name.
"""

import ast
from fnmatch import fnmatchcase

import pytest
from support.private_names import Scanner, defined_names
from test_meta import python_files, relative

FOLDERS = ("coda_ir", "dialects", "passes", "frontends", "backends")

REASONS = {
    "backends/triton/runtime/attention_gradient.py: torch.ops.aten._scaled_dot_product_*": (
        "operators of PyTorch's schema; where one is missing, attention is decomposed"
    ),
    "backends/triton/runtime/gradients.py: torch.utils.deterministic.fill_uninitialized_memory =": (
        "a setting that PyTorch documents as one to assign"
    ),
    "backends/triton/runtime/packed_weights.py: _version": (
        "the version counter that PyTorch documents; without it weights are packed in each call"
    ),
    "frontends/torch/experts.py: torch._dynamo*": (
        "how PyTorch documents that a dimension varies; without it each number of tokens compiles"
    ),
    "frontends/torch/graph_runner.py: torch._foreach_copy_": (
        "a foreach function, which has no other name: one launch for the states of all layers"
    ),
    "coda_ir/pytree.py: torch.utils._pytree": (
        "the trees in which torch.export states calls; PyTorch documents them under this name"
    ),
    "coda_ir/float64.py: torch.utils._python_dispatch.TorchDispatchMode": (
        "PyTorch documents the class under this name, in its notes on extending PyTorch"
    ),
    "coda_ir/inductor.py: __c*": (
        "TorchDynamo counts the variants of a code; Python documents how a function is copied"
    ),
    "coda_ir/inductor.py: torch._dynamo*": (
        "PyTorch documents lookup_backend in its page on custom backends"
    ),
    "coda_ir/inductor.py: torch._subclasses*": (
        "PyTorch documents FakeTensorMode under this name, in its page on fake tensors"
    ),
    "coda_ir/launching/compile_worker.py: sys.modules[[]torch]": (
        "Python documents the assignment; the process runs no host functions"
    ),
    "coda_ir/launching/cuda_graphs.py: torch._C*": (
        "ends the allocations of a capture that failed, where the function is there"
    ),
    "coda_ir/mlir/parser.py: _*": (
        "xDSL's parser has no bounds of its own; pyproject.toml admits one version of xDSL"
    ),
    "frontends/torch/decompositions.py: torch.ops.aten._native_batch_norm_legit*": (
        "operators of graphs that PyTorch captures; they are as old as these graphs"
    ),
    "frontends/torch/decompositions.py: torch.ops.aten._native_multi_head_attention*": (
        "an operator of PyTorch's schema: nn.MultiheadAttention in inference"
    ),
    "frontends/torch/decompositions.py: torch.ops.aten._transformer_encoder_layer_fwd*": (
        "an operator of PyTorch's schema: nn.TransformerEncoderLayer in inference"
    ),
    "frontends/torch/decompositions.py: torch._decomp*": (
        "the rules by which PyTorch computes shapes; where there are none, none is wrong"
    ),
    "frontends/torch/complex_numbers.py: torch.ops.aten._to_copy*": (
        "the conversion of graphs that PyTorch captures"
    ),
    "coda_ir/tuning/gpu.py: torch.cuda._sleep": (
        "keeps the host out of measurements, where the function is there"
    ),
    "dialects/gemm/assembly.py: _print_new_line": (
        "indents a line of assembly; without it lines are not indented"
    ),
    "frontends/torch/dynamo.py: torch._dynamo*": (
        "PyTorch documents aot_autograd and lookup_backend in its page on custom backends; without "
        "RestartAnalysis, a graph that is traced again runs in Inductor"
    ),
    "frontends/torch/dynamo.py: torch._subclasses*": (
        "PyTorch documents FakeTensorMode under this name; without its exceptions, a "
        "message calls what cannot be traced a defect"
    ),
    "frontends/torch/graph_compiler.py: torch._subclasses*": (
        "leaves the mode of tensors without data; without it graphs run through the fallback"
    ),
    "frontends/torch/graph_inputs.py: *._override_composite_implicit_decomp": (
        "keeps norms and attention whole; without it the passes raise their decompositions"
    ),
    "frontends/torch/graph_inputs.py: torch.ops.aten._scaled_dot_product_attention_math": (
        "an operator of PyTorch's schema: attention with dropout as eager computes it on CPUs"
    ),
    "frontends/torch/graph_inputs.py: _version": (
        "the version counter that PyTorch documents: whether an input was changed in place"
    ),
    "frontends/torch/graph_runner.py: _version": (
        "the version counter that PyTorch documents: which inputs a graph changes"
    ),
    "frontends/torch/training_graphs.py: _version": (
        "the version counter that PyTorch documents: whether memory is changed in place"
    ),
}


def test_each_access_has_a_reason_and_each_reason_an_access():
    trees = {relative(path): ast.parse(path.read_text()) for path in python_files(*FOLDERS)}
    defined = defined_names(trees.values())
    accesses = {
        f"{path}: {name}" for path, tree in trees.items() for name in Scanner(defined).scan(tree)
    }
    unknown = [each for each in accesses if not any(fnmatchcase(each, a) for a in REASONS)]
    assert not sorted(unknown), "use a documented name, or state the reason in REASONS"
    assert not [a for a in REASONS if not any(fnmatchcase(each, a) for each in accesses)]


SOURCES = {
    "import torch._dynamo": {"torch._dynamo"},
    "import torch.utils._pytree as p": {"torch.utils._pytree"},
    "from torch._subclasses.fake_tensor import FakeTensor": {
        "torch._subclasses.fake_tensor.FakeTensor"
    },
    "from torch import _guards": {"torch._guards"},
    "import torch\ntorch._C._functorch.f()": {"torch._C._functorch.f", "torch._C._functorch"},
    "from torch import cuda\ncuda._sleep(1)": {"torch.cuda._sleep"},
    "import torch\naten = torch.ops.aten\naten._softmax(x)": {"torch.ops.aten._softmax"},
    "import_module('torch._guards')": {"torch._guards"},
    "m = import_module('triton.runtime')\nm._cache": {"triton.runtime._cache"},
    "getattr(node.target, '_schema')": {"_schema"},
    "hasattr(x, '_version')": {"_version"},
    "getattr(torch_table, f'_empty_{kind}')": {"_empty_*"},
    "node.target._schema": {"_schema"},
    "launch.__code__.co_freevars": {"__code__", "co_freevars"},
    "launch.__closure__": {"__closure__"},
    "sys.modules['triton.runtime']": {"sys.modules[triton.runtime]"},
    "sys.modules.get('triton.runtime')": {"sys.modules[triton.runtime]"},
    "from xdsl.ir import Attribute\nAttribute.verify = f": {"xdsl.ir.Attribute.verify ="},
    "import torch\nsetattr(torch, 'compile', f)": {"torch.compile ="},
    "import triton\nvars(triton)['jit'] = f": {"vars(triton) ="},
    "import triton\nvars(triton).setdefault('jit', f)": {"vars(triton) ="},
    "from xdsl.parser import Parser\nclass P(Parser):\n    x = lambda self: self._token": {
        "_token"
    },
    "from xdsl.parser import Parser\nclass P(Parser):\n    _limit = 3": {"_limit"},
    "from xdsl.parser import Parser\nclass P(Parser):\n"
    "    def _parse(self):\n        return super()._parse()": {"_parse"},
}


@pytest.mark.parametrize("source", SOURCES)
def test_finds(source: str):
    found = Scanner().scan(ast.parse(source))
    assert SOURCES[source] <= found


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.cuda.Event(enable_timing=True)",
        "import os\nos._exit(0)",
        "from coda_ir import _private",
        "class A:\n    def _f(self):\n        return self._g + other._f()",
        "class A(Base):\n    def _f(self):\n        return super()._f()",
        "import torch\nx = torch.zeros(1)\nx.grad = None",
        "type(error).__name__",
        "row._replace(a=1)",
        "import sys\n'triton' in sys.modules",
    ],
)
def test_does_not_find(source: str):
    tree = ast.parse(source)
    assert not Scanner(defined_names([tree])).scan(tree)

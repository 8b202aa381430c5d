"""A picture of a module, as a graph in the DOT language and as SVG."""

import shutil
import subprocess

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from coda_ir.backends.graphviz import theme
from coda_ir.backends.graphviz.dot import Graph, title
from coda_ir.backends.graphviz.fusion_view import draw_fusion
from coda_ir.diagnostics import MachineError, OptionError
from coda_ir.signatures import check_types


def draw_module(module: ModuleOp, entry: str | None = None) -> str:
    """Return the graph of a module in the DOT language.

    It shows the operators, with a box around those that `coda-to-gemm` puts into one kernel.
    `entry` names a function; by default all are drawn. Raises CodaError for an unknown function.
    """
    chosen = chosen_functions(module, entry)
    name = chosen[0].sym_name.data if len(chosen) == 1 else "module"
    graph = Graph(name, dict(theme.GRAPH), {"node": theme.NODE, "edge": theme.EDGE})
    for func in chosen:
        box = graph.root
        if len(chosen) > 1:
            box = graph.root.box(label=title(func.sym_name.data), **theme.FUNCTION_BOX)
        draw_fusion(box, module, func)
    return str(graph)


def chosen_functions(module: ModuleOp, entry: str | None) -> list[FuncOp]:
    """Return the functions with a body, or the one with the given name.

    Raises CodaError if there is none, and for an argument or a result that is not a tensor.
    """
    functions = [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]
    chosen = [func for func in functions if entry in (None, func.sym_name.data)]
    if entry is not None and not chosen:
        names = ", ".join(func.sym_name.data for func in functions) or "none"
        raise OptionError(f"no function '{entry}'", f"the functions are {names}")
    for func in chosen:
        check_types(func)
    return chosen


def render_svg(dot_text: str) -> str:
    """Return the SVG of a graph in the DOT language.

    Raises CodaError where the program `dot` is not installed, or fails.
    """
    program = shutil.which("dot")
    if program is None:
        raise MachineError(
            "drawing SVG needs the program 'dot' of Graphviz, which is not on PATH",
            "install graphviz (such as apt install graphviz), or emit dot and draw it elsewhere",
        )
    done = subprocess.run(
        [program, "-Tsvg"], input=dot_text.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise MachineError(f"dot: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()

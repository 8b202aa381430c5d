"""Pictures by the program `dot` of Graphviz."""

from __future__ import annotations

import shutil
import subprocess

from coda_ir.diagnostics import CodaError


def render_svg(dot_text: str) -> str:
    """The SVG of a graph in the DOT language.

    Raises CodaError where the program `dot` is not installed, or fails.
    """
    program = shutil.which("dot")
    if program is None:
        raise CodaError(
            "drawing SVG needs the program 'dot' of Graphviz, which is not on PATH",
            "install graphviz (such as apt install graphviz), or emit dot and draw it elsewhere",
        )
    done = subprocess.run(
        [program, "-Tsvg"],
        input=dot_text.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise CodaError(f"dot: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()

"""lit configuration: every `.mlir` and `.coda` file below is a test, driven by its RUN lines."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

config: Any = globals()["config"]

root = Path(__file__).parent

config.name = "coda-ir"
sys.path.insert(0, str(root.parent))
config.test_format = import_module("support.lit_format").ToolsInProcess()
config.suffixes = [".mlir", ".coda"]
# Helper files that tests import or read.
config.excludes = ["Inputs"]
config.test_source_root = str(root)
config.test_exec_root = str(root.parents[1] / "build" / "lit")

# coda-opt, coda-fmt and filecheck of the environment that runs lit.
tools = str(Path(sys.executable).parent)
config.environment["PATH"] = os.pathsep.join([tools, config.environment.get("PATH", "")])
# Triton reads it at its import and at each kernel; a process of lit runs many tools.
if "TRITON_INTERPRET" in os.environ:
    config.environment["TRITON_INTERPRET"] = os.environ["TRITON_INTERPRET"]
config.substitutions.append(("%examples", str(root.parents[1] / "examples")))

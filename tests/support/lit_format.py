"""A format of lit that starts the tools of this package by fork instead of by exec.

Most of the time of a golden is that of importing xDSL, and torch, once per command. Here each
process of lit imports them once, and a command is a copy of that process, with pipes, exit code,
working directory and environment of its own as any process has them.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

TOOLS = {
    "coda-opt": "coda_ir.tools.coda_opt",
    "coda-fmt": "coda_ir.tools.coda_fmt",
    "coda-cache": "coda_ir.tools.coda_cache",
    "filecheck": "filecheck.main",
}
"""The modules of the tools, which have a function `main`."""

ShTest: Any = import_module("lit.formats").ShTest
runner: Any = import_module("lit.TestRunner")
Popen: Any = subprocess.Popen


class ForkedTools(ShTest):
    """Goldens in the internal shell of lit, which starts processes as `ForkedProcess`."""

    def __init__(self) -> None:
        ShTest.__init__(self, execute_external=False)

    def execute(self, test: Any, lit_config: Any) -> Any:
        if runner.subprocess is subprocess:
            preload()
            runner.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": ForkedProcess})
        return ShTest.execute(self, test, lit_config)


def preload() -> None:
    """Import what the tools import, except triton, which reads the environment when it is."""
    for module in TOOLS.values():
        import_module(module)
    registry: Any = import_module("coda_ir.registry")
    for get_all in (registry.get_all_dialects, registry.get_all_passes, registry.get_all_targets):
        for load in get_all().values():
            load()
    import_module("coda_ir.backends.reference")
    # What is there now is in all copies: no collector has to look at it again.
    gc.freeze()


class ForkedProcess(Popen):
    """`subprocess.Popen`, whose child is a fork where it is one of `TOOLS`."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        module = TOOLS.get(Path(executable or args[0]).name)
        if module is None:
            Popen._execute_child(self, args, executable, *rest)
            return
        _, _, _, cwd, env, _, _, _, *pipes = rest[:14]
        stdin, _, _, stdout, _, stderr = pipes
        self.pid = os.fork()
        if not self.pid:
            _become(module, args, cwd, env, (stdin, stdout, stderr))
        self._child_created = True
        self._close_pipe_fds(*pipes)


def _become(
    module: str,
    args: list[str],
    cwd: str,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
) -> NoReturn:
    """Run a tool in this process, and end it as Python would."""
    code = 1
    try:
        for standard, given in enumerate(streams):
            if given >= 0:
                os.dup2(given, standard)
        # The ends of pipes that are other processes'.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = os.fdopen(0, encoding="utf-8")
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8")
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = args
        code = _exit_code(import_module(module).main)
        sys.stdout.flush()
    finally:
        os._exit(code)


def _exit_code(main: Callable[[], int | None]) -> int:
    try:
        return main() or 0
    except SystemExit as error:
        return cast(int, error.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1

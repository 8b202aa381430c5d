"""A format of lit that runs the tools of this package in the processes of lit.

Most of the time of a golden is that of starting a process and importing xDSL, and torch. Here a
command has arguments, pipes, exit code, working directory and environment as any process has, but
is a call of the tool's `main`. tests/tools runs the installed commands.
"""

import gc
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

TOOLS = {
    "coda-opt": "coda_ir.tools.coda_opt",
    "coda-fmt": "coda_ir.tools.coda_fmt",
    "coda-cache": "coda_ir.tools.coda_cache",
    "filecheck": "filecheck.main",
}
"""The modules of the tools, which have a function `main`."""

PIPE_BYTES = 1 << 15
"""The bytes that every pipe holds."""

ShTest: Any = import_module("lit.formats").ShTest
runner: Any = import_module("lit.TestRunner")
Popen: Any = subprocess.Popen


class ToolsInProcess(ShTest):
    """Goldens in the internal shell of lit, which starts processes as `ToolProcess`."""

    def __init__(self) -> None:
        """Import the tools before lit forks its processes, which then share them."""
        ShTest.__init__(self, execute_external=False)
        preload()

    def execute(self, test: Any, lit_config: Any) -> Any:
        if runner.subprocess is subprocess:
            runner.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": ToolProcess})
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
    gc.set_threshold(20_000, 20)


class ToolProcess(Popen):
    """`subprocess.Popen`, but one of `TOOLS` runs in this process, before the constructor ends."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        module = TOOLS.get(Path(executable or args[0]).name)
        if module is None:
            Popen._execute_child(self, args, executable, *rest)
            return
        _, _, _, cwd, env, _, _, _, *pipes = rest[:14]
        stdin, _, _, stdout, _, stderr = pipes
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with _as_process(args, cwd, env), os.fdopen(os.dup(stdin), encoding="utf-8") as given:
            sys.stdin, sys.stdout, sys.stderr = given, out, err
            self.returncode = _exit_code(import_module(module).main)
        # A process whose output is no terminal writes most of it at its end.
        for stream, number in ((err, stderr), (out, stdout)):
            _send(stream.buffer.getvalue(), number)
        self.pid, self._child_created = os.getpid(), True
        self._close_pipe_fds(*pipes)


@contextmanager
def _as_process(args: list[str], cwd: str, env: Mapping[str, str]) -> Generator[None]:
    """Arguments, folder, environment and streams of another process, until the end."""
    streams, before = (sys.stdin, sys.stdout, sys.stderr), (sys.argv, os.getcwd(), dict(os.environ))
    os.chdir(cwd)
    _set_environment(env)
    sys.argv = args
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.argv = before[0]
        os.chdir(before[1])
        _set_environment(before[2])


def _set_environment(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


def _send(data: bytes, number: int) -> None:
    """Write to a pipe or a file, without waiting for who reads the pipe."""
    copied = os.fdopen(os.dup(number), "wb")

    def send() -> None:
        with suppress(BrokenPipeError), copied:
            copied.write(data)

    if len(data) < PIPE_BYTES:
        send()
    else:
        Thread(target=send, daemon=True).start()


def _exit_code(main: Callable[[], int | None]) -> int:
    try:
        return main() or 0
    except SystemExit as error:
        return cast(int, error.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1

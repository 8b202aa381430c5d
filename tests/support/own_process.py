"""A function in a process of its own: `python -m support.own_process MODULE FUNCTION ARGUMENT`.

The process ends without destructors: that of gloo's process group waits for threads that may wait
for the interpreter.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module


def run_apart(function: Callable[[str], None], argument: str) -> None:
    """Call `function`, which a module has by its name, in another process. Raises AssertionError
    with what it prints where it raises.
    """
    names = [__name__, function.__module__, function.__name__]
    command = [sys.executable, "-m", *names, argument]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def main(module: str, function: str, argument: str) -> int:
    try:
        getattr(import_module(module), function)(argument)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)

"""The process that runs one target under atheris. Started by `python -m fuzz`.

atheris has no types, which is why it is `Any` here.
"""

from __future__ import annotations

import json
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

atheris: Any = import_module("atheris")

with atheris.instrument_imports(include=["coda_ir", "xdsl", "lark"]):
    from coda_ir.passes import get_all_passes
    from fuzz.findings import Findings
    from fuzz.mutator import Mutator
    from fuzz.oracle import bounded
    from fuzz.seeds import seeds, words
    from fuzz.targets import TARGETS, Target


def main(arguments: list[str]) -> None:
    """Arguments: the target, the folder of findings, then those of libFuzzer."""
    name, folder, *rest = arguments
    target, findings = TARGETS[name], Findings(Path(folder))
    # The memory of imports is not that of the first text that names a pass.
    for load in get_all_passes().values():
        load()

    def run_once(data: bytes) -> None:
        text = data.decode("utf-8", errors="replace")
        try:
            bounded(target.check, text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if findings.record(target, text, error):
                print(f"FINDING {json.dumps(findings.signature(error))}", file=sys.stderr)

    atheris.Setup([sys.argv[0], *rest], run_once, custom_mutator=mutation_of(target))
    atheris.Fuzz()


def mutation_of(target: Target) -> Any:
    """A mutator for libFuzzer: ours mostly, its own at times."""
    known, vocabulary = seeds(target.language), words(target.language)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        generator = random.Random(seed)
        if generator.random() < 0.15:
            return atheris.Mutate(data, len(data) or 1)
        mutator = Mutator(known, vocabulary, generator)
        text = data.decode("utf-8", errors="replace")
        if generator.random() < 0.1:
            text = mutator.crossed(text, generator.choice(known))
        return mutator.mutated(text).encode("utf-8", errors="replace")[:max_size]

    return mutate


if __name__ == "__main__":
    main(sys.argv[1:])

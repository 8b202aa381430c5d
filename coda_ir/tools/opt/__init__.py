"""The parts of `coda-opt`, one module per feature.

A feature is a `Feature` in the list of `features.py`: a function that registers its options, and
any of these, each of which gets the `Session` with the options and what the tool works on:

* `action`: does something instead of reading an input, and gives the exit code (`--list-passes`)
* `around_chunk`: a context manager around reading, rewriting and printing one piece of the input;
  it sees the errors, and may swallow them (`--verify-diagnostics`, `--remarks`)
* `instrumentations`: what watches the passes run (`--timing`, `--print-ir-after`)
* `write`: the output in place of the target's (`--run`, `--emit`)
* `finish`: a report in the end, also where an error ends the run (`--timing`)

To add one:

1. `coda_ir/tools/opt/my_feature.py` with `register_arguments(parser)`, which adds its options to
   an argument group (features that use the same title share it), and the functions above that it
   needs. What it imports at its top is imported by every start of the tool: import torch, triton
   and the like inside the functions.
2. An entry in `FEATURES`, such as `Feature(my_feature.register_arguments, write=my_feature.write)`.

A mistake of the user is a `CodaError` (exit code 1), or a `UsageError` where the command line
is wrong (2). A check that was asked for and fails calls `session.fail(diagnostic)` (1), after which
the next piece of the input is read. Anything else that is raised is a defect of the tool (3).
"""

"""The driver of `coda-opt`: reads each piece of the input, runs the passes on it, and prints it."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CodaError
from coda_ir.pipeline import parse_pipeline
from coda_ir.pipeline.spec import at_option
from coda_ir.registry import get_all_dialects, get_all_passes, get_all_targets
from coda_ir.remarks import collect_remarks
from coda_ir.tools.opt import passes, reproducer, source, target
from coda_ir.tools.opt.command_line import make_parser
from coda_ir.tools.opt.feature import Chunk, Session
from coda_ir.tools.opt.features import FEATURES
from coda_ir.universe import get_multiverse


def run(arguments: Sequence[str]) -> int:
    """Run the tool; return the exit code. Raises the errors of wrong input and of defects."""
    session = make_session(*parse_arguments(arguments))
    for feature in FEATURES:
        code = feature.action(session)
        if code is not None:
            return code
    try:
        with session.timer.running():
            process_input(session)
    finally:
        for feature in FEATURES:
            feature.finish(session)
    return session.exit_code


def parse_arguments(arguments: Sequence[str]) -> tuple[Sequence[str], argparse.Namespace]:
    """Parse the command line, preceded by that of a reproducer if one is run, and its options.

    Raises CodaError for a bad reproducer.
    """
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.run_reproducer:
        arguments = [*reproducer.recorded_arguments(options), *arguments]
        options = parser.parse_args(arguments, argparse.Namespace(overrides=True))
    return arguments, options


def make_session(arguments: Sequence[str], options: argparse.Namespace) -> Session:
    """Make the session with all that features need. Raises PipelineError and UsageError."""
    universe = get_multiverse()
    context = Context(allow_unregistered=options.allow_unregistered_dialect)
    # Ours also where the package is not installed, and so has no entry point.
    for name, load in (universe.all_dialects | get_all_dialects()).items():
        context.register_dialect(name, load)
    registry = universe.all_passes | get_all_passes()
    session = Session(
        arguments,
        options,
        context,
        registry,
        universe.all_targets | get_all_targets(),
        parse_pipeline(options.passes, registry),
        parse=partial(source.parse_chunk, context=context, options=options),
        print_module=partial(target.print_module, context, options),
    )
    target.target_spec(session)
    return session


def process_input(session: Session) -> None:
    """Read, rewrite and print every piece of the input."""
    chunks = source.read_chunks(session.options)
    with target.opened_output(session.options) as output:
        for chunk in chunks:
            if chunk.index:
                output.write("// -----\n")
            session.chunk, session.remarks = chunk, []
            with ExitStack() as stack:
                for feature in FEATURES:
                    stack.enter_context(feature.around_chunk(session))
                output.write(process_chunk(session, chunk))
            output.flush()


def process_chunk(session: Session, chunk: Chunk) -> str:
    """Return the output for one piece of the input."""
    timer = session.timer
    with collect_remarks() as session.remarks:
        with timer.part("parse").running():
            module = session.parse(chunk)
        watchers = [each for feature in FEATURES for each in feature.instrumentations(session)]
        with timer.part("passes").running():
            try:
                passes.pass_manager(session).run(session.context, module, watchers)
            except CodaError as error:
                raise at_option(error, session.options.passes) from error
        with timer.part("output").running():
            return output_of(session, module)


def output_of(session: Session, module: ModuleOp) -> str:
    """Return the output of the first feature that writes one, or else that of the target."""
    for feature in FEATURES:
        text = feature.write(session, module)
        if text is not None:
            return text
    return target.write(session, module)

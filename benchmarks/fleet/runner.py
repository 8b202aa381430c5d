"""Runs parts of models in separate processes, in waves: all of a wave compile side by side, then
one after the other is timed, while nothing compiles.

A wave has as many processes as `--jobs`, or fewer where those that wait would fill the memory of
the GPU. The smallest are timed first, so that the largest have most memory.
"""

import argparse
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch
from harness import TOOK_TOO_LONG, Job

from fleet.measure import LACKED_MEMORY, Record, measure, note_of
from fleet.members import members_of
from fleet.models import Member, Setting

METHOD = "spawn" if torch.cuda.is_available() else "fork"
"""A process that has used a GPU cannot be forked, and importing takes seconds."""
COMPILED, TIMED = 1, 2
"""The stages of a process; 0 at first."""

OVERRUN_SECONDS = 30
"""The seconds after the budget within which parts must end that began within it."""

TIMING_SECONDS = 8
"""The seconds to time each process of a wave that has compiled in time."""

MEMORY_SHARE = 0.9
"""Share of the GPU's memory that the processes of a wave may need."""

ACTIVATIONS_GIB = 2.0
"""GiB of a process beside its weights: PyTorch's libraries, inputs, activations and results."""

WEIGHT_COPIES = {"forward": 2.0, "training": 3.0}
"""Memory for weights while a part compiles, as a multiple of their size."""

Task = tuple[Member, str]
"""A model, and the part that is measured."""


class _Wave:
    """Parts that compile side by side and are then timed one after the other."""

    def __init__(self, tasks: Sequence[Task], options: argparse.Namespace):
        context = multiprocessing.get_context(METHOD)
        # Without a lock, which a process that is ended may hold.
        self.stages = context.Array("b", len(tasks), lock=False)
        self.jobs = {
            number: self._start(number, member, part, options)
            for number, (member, part) in enumerate(tasks)
        }

    def _start(
        self, number: int, member: Member, part: str, options: argparse.Namespace
    ) -> Job[Record]:
        def failed(note: str) -> Record:
            return Record(member.name, member.family, part, notes={"process": note})

        turn = _Turn(number, self.stages)
        arguments = (member.name, part, _setting(options), options, turn)
        return Job(METHOD, _work, arguments, failed)

    def records(self, until: float) -> Iterator[Record]:
        """Yield the records as they arrive."""
        running = dict(self.jobs)
        timed = until + TIMING_SECONDS * len(running)
        while running:
            for number, job in list(running.items()):
                has_compiled = self.stages[number] != 0
                record = job.poll(timed if has_compiled else until)
                if record is not None:
                    del running[number]
                    self.stages[number] = TIMED
                    yield record
            time.sleep(0.1)


@dataclass
class _Turn:
    """A context for exclusive use of the GPU, in order, after a wave of processes has compiled."""

    number: int
    stages: Any

    def __enter__(self) -> None:
        self.stages[self.number] = COMPILED
        while not (all(self.stages) and all(s == TIMED for s in self.stages[: self.number])):
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self.stages[self.number] = TIMED


def run(
    tasks: Sequence[Task], options: argparse.Namespace, report: Callable[[str], object] = print
) -> Iterator[Record]:
    """Yield records as they arrive.

    Parts for which the GPU's memory was too small beside others come last, half as many at a time.
    `report` gets a line for each of them, and one for those that did not fit into the budget, of
    which there is no record.
    """
    end = time.monotonic() + options.budget
    is_limited = options.device == "cuda"
    memory = MEMORY_SHARE * total_gib() if is_limited else math.inf
    needed = {task: needed_gib(task, options) if is_limited else 0.0 for task in tasks}
    jobs, waiting = options.jobs, list(tasks)
    left: list[Task] = []
    crowded: list[Task] = []
    while waiting or crowded:
        if not waiting:
            jobs, waiting, crowded = max(1, jobs // 2), crowded, []
        chosen = _next_wave(waiting, jobs, needed, memory)
        waiting = [task for task in waiting if task not in chosen]
        now = time.monotonic()
        limit = min(now + options.timeout, end + OVERRUN_SECONDS)
        if now > end:
            left += chosen
            continue
        parts = {(member.name, part): (member, part) for member, part in chosen}
        for record in _Wave(chosen, options).records(limit):
            task = parts[record.model, record.part]
            notes = list(record.notes.values())
            if len(chosen) > 1 and any(LACKED_MEMORY in note for note in notes):
                crowded.append(task)
                report(f"{_name(task)}: again later, beside fewer: {notes[0]}")
            elif TOOK_TOO_LONG in notes and limit < now + options.timeout:
                left.append(task)
            else:
                yield record
    if left:
        names = ", ".join(map(_name, left))
        report(f"left for the next run by a budget of {options.budget:.0f} s: {names}")


def _next_wave(
    tasks: Sequence[Task], jobs: int, needed: Mapping[Task, float], memory: float
) -> list[Task]:
    """Return the first task and up to `jobs` that fit into memory beside it, the largest last."""
    chosen: list[Task] = []
    for task in tasks:
        gib = sum(needed[each] for each in (*chosen, task))
        if not chosen or (gib <= memory and len(chosen) < jobs):
            chosen.append(task)
    return sorted(chosen, key=needed.__getitem__)


def total_gib() -> float:
    """Return the GiB of memory of the GPU."""
    return torch.cuda.mem_get_info()[1] / 2**30


def needed_gib(task: Task, options: argparse.Namespace) -> float:
    """Estimate the GiB of a process that compiles: weights, copies, gradients, activations."""
    member, part = task
    try:
        model = member.build(replace(_setting(options), device="meta"))
    except Exception:
        return ACTIVATIONS_GIB  # the process says what is wrong
    weights = sum(weight.nbytes for weight in model.parameters()) / 2**30
    return ACTIVATIONS_GIB + WEIGHT_COPIES[part] * weights


def _name(task: Task) -> str:
    member, part = task
    return f"{member.name}, {part}"


def _work(
    name: str,
    part: str,
    setting: Setting,
    options: argparse.Namespace,
    turn: _Turn,
    results: Connection,
) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.jobs))
    (member,) = (member for member in members_of(options.members) if member.name == name)
    variants = options.variants.split(",")
    try:
        record = measure(
            *(member, part, setting, variants, lambda: turn, options.rounds),
            host=options.host,
            energy=options.energy,
            kernels=options.profile,
        )
        results.send(record)
    except Exception as error:
        results.send(Record(member.name, member.family, part, notes={"all": note_of(error)}))


def _setting(options: argparse.Namespace) -> Setting:
    is_narrow = options.device == "cuda" and not (options.autocast or options.float32)
    return Setting(
        options.device,
        torch.bfloat16 if is_narrow else torch.float32,
        options.layers,
        options.batch,
        options.tokens,
        autocast=options.autocast,
        small=options.device == "cpu",
    )

"""Measures parts of models in processes of their own: several compile, one is timed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch

from fleet.measure import Record, measure
from fleet.models import FLEET, Member, Setting


class _Job:
    """A part of a model in a process of its own."""

    def __init__(self, member: Member, part: str, options: argparse.Namespace, lock: Any):
        context = multiprocessing.get_context("spawn")
        self.member, self.part = member, part
        self.until = time.monotonic() + options.timeout
        self.results, sender = context.Pipe(duplex=False)
        arguments = (member.name, part, _setting(options), options, lock, sender)
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        sender.close()

    def poll(self) -> Record | None:
        """The record, once there is one."""
        if self.results.poll():
            try:
                return self.results.recv()
            except EOFError:
                return self._failed(f"the process ended with {self.process.exitcode}")
        if time.monotonic() > self.until:
            self.process.kill()
            return self._failed("took too long")
        return None

    def _failed(self, note: str) -> Record:
        return Record(self.member.name, self.member.family, self.part, notes={"process": note})


def run(
    tasks: Sequence[tuple[Member, str]], options: argparse.Namespace
) -> Iterator[Record]:
    """The records as they come; what does not fit into the budget is left out."""
    lock = multiprocessing.get_context("spawn").Lock()
    waiting, running = list(tasks), list[_Job]()
    end = time.monotonic() + options.budget
    while (waiting and time.monotonic() < end) or running:
        while waiting and len(running) < options.jobs and time.monotonic() < end:
            running.append(_Job(*waiting.pop(0), options, lock))
        for job in list(running):
            record = job.poll()
            if record is not None:
                running.remove(job)
                yield record
        if time.monotonic() > end + 30:
            for job in running:
                job.process.kill()
            return
        time.sleep(0.1)


def _work(
    name: str,
    part: str,
    setting: Setting,
    options: argparse.Namespace,
    lock: Any,
    results: Connection,
) -> None:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.jobs))
    (member,) = (member for member in FLEET if member.name == name)
    variants = options.variants.split(",")
    try:
        results.send(measure(member, part, setting, variants, lambda: lock, options.rounds))
    except Exception as error:
        note = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        results.send(Record(member.name, member.family, part, notes={"all": note}))


def _setting(options: argparse.Namespace) -> Setting:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    return Setting(
        device, dtype, options.layers, options.batch, options.tokens, small=options.small
    )



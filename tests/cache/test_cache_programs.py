"""Compiled programs of the cache: found by what decides them, and never in the way."""

import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.compile_cache import PROGRAM, VERSIONS, count_lowered, set_versions, use_cache
from support.torch_compile import always_call_programs, trace_only
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)

import coda_ir
from coda_ir.cache import folder, programs, toolchain
from coda_ir.diagnostics import CodaError, collect_diagnostics
from coda_ir.remarks import Remark, collect_remarks
from coda_ir.symbolic_size import SymbolicSize


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_cache(monkeypatch, tmp_path)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    return count_lowered(monkeypatch)


def compiled(program: Any = PROGRAM, **options: Any) -> coda_ir.CompiledFunction:
    compile: Any = coda_ir.compile
    return compile(program, device="cpu", **options)


def used_before(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "programs").glob("*.entry"))


def cache_remarks(function: coda_ir.CompiledFunction) -> list[str]:
    return [remark.message for remark in function.remarks if remark.pass_name == "cache"]


class TestHits:
    @pytest.mark.parametrize("kind", ["text", "file", "module"])
    def test_a_found_program_is_the_compiled_one(
        self, cache: Path, tmp_path: Path, lowered: Callable[[], int], kind: str
    ):
        path = tmp_path / "layer.coda"
        path.write_text(PROGRAM)
        program = {"text": PROGRAM, "file": path, "module": coda_ir.parse(PROGRAM)}[kind]
        first, second = compiled(program), compiled(program)
        assert lowered() == 1
        assert len(entries(cache)) == 1
        assert first.source == second.source
        assert first.signature == second.signature
        assert first.remarks == second.remarks != ()
        assert first.kernels == second.kernels != ()
        assert first.operators == second.operators
        assert first.ir("scheduled") == second.ir("scheduled")
        tensors = torch.ones(3, 16), torch.ones(3, 16), torch.ones(16, 16), torch.ones(16)
        torch.testing.assert_close(second(*tensors), second.reference(tensors), check_dtype=False)

    @pytest.mark.slow
    def test_a_found_program_needs_neither_xdsl_nor_the_passes(self, cache: Path):
        compiled()
        script = f"""
import sys
from coda_ir.cache import programs
programs.toolchain = lambda: {VERSIONS}
import coda_ir
function = coda_ir.compile({PROGRAM!r}, device="cpu")
assert len(function.kernels) > 0
print([name for name in sys.modules if name.startswith(("xdsl", "coda_ir.passes", "lark"))])
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"

    def test_a_module_may_be_changed_afterwards(self, cache: Path):
        module = coda_ir.parse(PROGRAM)
        compiled(module)
        second = compiled(module)
        before = str(module)
        for op in list(module.ops):
            op.detach()
        assert second.ir("block") == before

    def test_what_passes_say_is_said_again(self, cache: Path):
        text = PROGRAM.replace("x: f32", "unused: f32[M], x: f32")
        told: list[tuple[list[Remark], list[str]]] = []
        for _ in range(2):
            with collect_remarks() as remarks, collect_diagnostics() as warnings:
                compiled(text)
            told.append((remarks, [warning.render() for warning in warnings]))
        assert told[0] == told[1]
        assert told[0][0] and "unused" in told[0][1][0]

    def test_programs_that_are_trained(self, cache: Path, lowered: Callable[[], int]):
        functions = [
            coda_ir.compile(PROGRAM, device="cpu", training=True, target="triton") for _ in range(2)
        ]
        pairs = [function.pair(("x", "w")) for function in functions]
        assert lowered() == 2
        assert pairs[0].remarks == pairs[1].remarks != ()
        assert pairs[0].differentiable == pairs[1].differentiable == {0}
        assert functions[0].ir("gemm") == functions[1].ir("gemm")
        functions[1].pair(("x",))
        assert lowered() == 4

    def test_a_graph_that_calls_programs(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, lowered: Callable[[], int]
    ):
        trace_only(monkeypatch)
        always_call_programs(monkeypatch)
        text = PROGRAM.replace("linear(x, w)", "linear(cumsum(relu(linear(x, w))), w)")
        first, second = (compiled(text, leftovers="inductor") for _ in range(2))
        # The graph and its two programs.
        assert lowered() == 3
        assert len(entries(cache)) == 3
        assert first.source == second.source != compiled(text).source
        assert first.remarks == second.remarks != ()
        assert first.kernels == second.kernels != ()
        assert first.operators == second.operators
        assert first.ir("gemm") == second.ir("gemm")
        tensors = torch.ones(3, 16), torch.ones(3, 16), torch.ones(16, 16), torch.ones(16)
        torch.testing.assert_close(second(*tensors), first.reference(tensors), check_dtype=False)
        assert lowered() == 4

    def test_the_cache_can_be_off(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, lowered: Callable[[], int]
    ):
        monkeypatch.setenv("CODA_CACHE_LIMIT", "0")
        compiled()
        compiled()
        assert lowered() == 2
        assert not cache.exists()

    def test_a_limit_that_is_no_size(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CODA_CACHE_LIMIT", "plenty")
        with pytest.raises(CodaError, match=r"CODA_CACHE_LIMIT=plenty: not a size\n  help: write"):
            compiled()


class TestKeys:
    def test_whatever_decides_a_program_gives_another_key(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        compiled()
        variants: list[Callable[[], object]] = [
            lambda: compiled(PROGRAM + "# comments move nothing, but places\n"),
            lambda: compiled(coda_ir.parse(PROGRAM)),
            lambda: compiled(constants={"D": 32}),
            lambda: compiled(entry="layer"),
            lambda: compiled(schedule="target=interpreter warps=8"),
            lambda: compiled(numerics="deterministic"),
            lambda: compiled(pack_weights=False),
            lambda: compiled(fold_weights=True),
        ]
        path = tmp_path / "layer.coda"
        path.write_text(PROGRAM)
        variants.append(lambda: compiled(path))
        for count, variant in enumerate(variants, 2):
            variant()
            assert len(entries(cache)) == count
        for name in VERSIONS:
            set_versions(monkeypatch, VERSIONS | {name: "2"})
            compiled()
        assert len(entries(cache)) == 1 + len(variants) + len(VERSIONS)

    def test_the_texts_of_imported_files(
        self, cache: Path, tmp_path: Path, lowered: Callable[[], int]
    ):
        main, imported = tmp_path / "main.coda", tmp_path / "norms.coda"
        main.write_text('import "norms.coda"\nfn f(x: f32[M, 8]) -> f32[M, 8] { return n(x) }\n')
        imported.write_text("fn n(x: f32[M, 8]) -> f32[M, 8] { return silu(x) }\n")
        compiled(main)
        found = compiled(main)
        assert lowered() == 1
        imported.write_text("fn n(x: f32[M, 8]) -> f32[M, 8] { return relu(x) }\n")
        assert "relu" in compiled(main).source
        assert lowered() == 2
        assert "silu" in found.ir("block")
        imported.unlink()
        with pytest.raises(CodaError, match="cannot import"):
            compiled(main)

    def test_versions_have_the_sources_of_the_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        source, other = tmp_path / "__init__.py", tmp_path / "readme.txt"
        source.write_text("a = 1\n")
        os.utime(source, (1, 1))
        monkeypatch.setattr(coda_ir, "__file__", str(source))
        find = toolchain.toolchain.__wrapped__
        first = find()
        assert first is not None and first["torch"].startswith(torch.__version__.partition("+")[0])
        other.write_text("text")
        assert find() == first
        source.write_text("a = 2\n")
        assert find() is None, "the source is newer than the process"
        os.utime(source, (1, 1))
        assert find() not in (None, first)


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def with_checksum(content: bytes) -> bytes:
    return folder.seal(programs.MAGIC, content)


def with_other_key(data: bytes) -> bytes:
    entry = programs.Entry.from_bytes(data)
    return replace(entry, header=replace(entry.header, key=f"0{entry.header.key}")).to_bytes()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": truncated,
    "empty": lambda _: b"",
    "garbage": lambda _: bytes(range(256)) * 9,
    "one bit": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "other format": lambda data: data.replace(b"program ", b"program 0", 1),
    "no pickle": lambda _: with_checksum(b"{}\nno\n"),
    "one line": lambda _: with_checksum(b"{}\n"),
    "no entry": lambda _: with_checksum(b"{}\n" + pickle.dumps({})),
    "no class": lambda _: with_checksum(b"{}\ncnone\nnone\n."),
    "other key": with_other_key,
}


class TestDamage:
    @pytest.mark.slow
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_entry_is_replaced(
        self, cache: Path, lowered: Callable[[], int], damage: str
    ):
        compiled()
        (path,) = entries(cache)
        good = path.read_bytes()
        path.write_bytes(DAMAGES[damage](good))
        (told,) = cache_remarks(compiled())
        assert told.startswith("a damaged entry is replaced: ")
        assert lowered() == 2
        assert cache_remarks(compiled()) == []
        assert lowered() == 2

    def test_a_folder_in_the_place_of_an_entry(self, cache: Path):
        compiled()
        (path,) = entries(cache)
        path.unlink()
        path.mkdir()
        told = cache_remarks(compiled())
        assert told[0] == "an entry cannot be read: Is a directory"
        assert told[1].endswith("Is a directory")


class TestUnwritable:
    """The program is compiled, nothing is left behind, and a remark says why.

    Only this process finds it again.
    """

    def check(self, cache: Path, reason: str) -> None:
        function = compiled(constants={"D": 8})
        (told,) = cache_remarks(function)
        assert told == f"the program is not stored in {cache / 'programs'}: {reason}"
        tensors = torch.ones(2, 8), torch.ones(2, 8), torch.ones(8, 8), torch.ones(8)
        assert function(*tensors).shape == (2, 8)
        assert not [path for path in cache.rglob("*") if path.is_file()]
        assert compiled(constants={"D": 8}).remarks == function.remarks

    def test_a_full_disk(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        if not os.path.exists("/dev/full"):
            pytest.skip("needs /dev/full")

        def on_a_full_disk(path: Path, mode: str) -> Any:
            open(path, mode).close()
            return open("/dev/full", "wb")

        monkeypatch.setattr(folder, "open", on_a_full_disk, raising=False)
        self.check(cache, "No space left on device")

    def test_a_folder_without_permission(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        def refuse(path: Path, mode: str) -> Any:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(folder, "open", refuse, raising=False)
        self.check(cache, "Permission denied")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_read_only_folder(self, cache: Path):
        cache.mkdir()
        cache.chmod(0o500)
        self.check(cache, "Permission denied")

    def test_a_file_in_the_place_of_the_folder(self, cache: Path, lowered: Callable[[], int]):
        cache.write_text("")
        for _ in range(2):
            (told,) = cache_remarks(compiled())
            assert told.endswith("Not a directory")
        assert lowered() == 1

    def test_a_read_only_folder_with_the_program(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, lowered: Callable[[], int]
    ):
        compiled()

        def refuse(*_: object) -> Any:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "utime", refuse)
        monkeypatch.setattr(folder, "open", refuse, raising=False)
        assert cache_remarks(compiled()) == []
        assert lowered() == 1


def in_children(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in processes at once; fails where one fails or does not end."""
    children: list[int] = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            try:
                work(number)
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    deadline = time.monotonic() + 60
    states: dict[int, int] = {}
    while len(states) < count and time.monotonic() < deadline:
        for child in children:
            if child not in states and (done := os.waitpid(child, os.WNOHANG))[0]:
                states[child] = done[1]
        time.sleep(0.01)
    for child in set(children) - states.keys():
        os.kill(child, 9)
    assert list(states.values()) == [0] * count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestProcesses:
    def test_two_compile_one_program_at_once(self, cache: Path, tmp_path: Path):
        def work(number: int) -> None:
            (tmp_path / str(number)).touch()
            while not all((tmp_path / str(each)).exists() for each in range(2)):
                time.sleep(0.001)
            assert cache_remarks(compiled()) == []

        in_children(2, work)
        assert len(entries(cache)) == 1
        assert cache_remarks(compiled()) == []
        assert not list(cache.rglob("*.tmp"))

    def test_nobody_sees_half_an_entry(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        """Others write the entry and prune the cache all the time."""
        compiled()
        (path,) = entries(cache)
        data, key = path.read_bytes(), path.stem

        def work(number: int) -> None:
            for turn in range(100):
                if number == 0:
                    folder.write_whole(path, data)
                elif number == 1 and turn % 5 == 0:
                    folder.prune(max_bytes=0)
                else:
                    programs.load(key)

        in_children(4, work)


class TestPruning:
    def test_the_least_recently_used_go_first(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        compiled()
        (first,) = entries(cache)
        compiled(PROGRAM.replace("layer", "other"))
        (second,) = set(entries(cache)) - {first}
        for age, path in enumerate([second, first, *(cache / "modules").rglob("*.*")], 1):
            used_before(path, 1000 * age)
        pruned = folder.prune(max_bytes=first.stat().st_size + second.stat().st_size)
        assert entries(cache) == sorted([first, second])
        assert pruned.left == 2 and pruned.left_bytes == sum(
            p.stat().st_size for p in entries(cache)
        )
        compiled()  # The first is used now.
        monkeypatch.setenv("CODA_CACHE_LIMIT", str(first.stat().st_size + 100))
        folder.prune_to_limit()
        assert entries(cache) == [first]

    def test_a_new_program_makes_room(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        compiled()
        (first,) = entries(cache)
        os.utime(first, (1, 1))
        # Less than two programs, whose dates differ in length, and more than one and its module,
        # which is not written again if this process has loaded it before.
        monkeypatch.setenv("CODA_CACHE_LIMIT", str(2 * first.stat().st_size - 200))
        compiled(PROGRAM.replace("layer", "other"))
        assert len(entries(cache)) == 1 and not first.exists()

    def test_what_was_not_used_for_long(self, cache: Path):
        compiled()
        (path,) = entries(cache)
        used_before(path, 100)
        folder.prune(max_age=200)
        assert path.exists()
        folder.prune(max_age=50)
        assert not path.exists()

    def test_a_program_larger_than_the_limit(self, cache: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CODA_CACHE_LIMIT", "1000")
        compiled()
        assert entries(cache) == []

    def test_files_of_processes_that_died(self, cache: Path):
        compiled()
        fresh, abandoned = (cache / "programs" / f".{name}.tmp" for name in "ab")
        fresh.touch()
        abandoned.touch()
        os.utime(abandoned, (1, 1))
        folder.prune()
        assert fresh.exists() and not abandoned.exists()
        assert len(entries(cache)) == 1

    @pytest.mark.parametrize(
        "text, size",
        [
            ("0", 0),
            ("1500", 1500),
            ("2kB", 2000),
            ("1.5 KiB", 1536),
            ("1GiB", 1 << 30),
            ("3m", 3_000_000),
        ],
    )
    def test_sizes(self, text: str, size: int):
        assert folder.parse_size(text) == size

    @pytest.mark.parametrize("text", ["", "-1", "1e9", "1 XB", "GiB", "1_000"])
    def test_what_is_no_size(self, text: str):
        with pytest.raises(ValueError):
            folder.parse_size(text)


PLACE = FileLineColLoc(StringAttr("a.coda"), IntAttr(3), IntAttr(7))
NAMED = NameLoc(StringAttr("layers.0"), PLACE)


@pytest.mark.parametrize(
    "location",
    [UnknownLoc(), PLACE, NAMED, CallSiteLoc(PLACE, NAMED), FusedLoc((PLACE, NAMED), NoneAttr())],
)
@pytest.mark.parametrize("size", [None, 4, "2*M", SymbolicSize.product([2, "M"]) + 3])
def test_remarks_are_read_as_they_were_written(
    location: LocationAttr, size: int | str | SymbolicSize | None
):
    remark = Remark("missed", "p", "coda.add", location, "no", "c", size, "do", "f")
    assert pickle.loads(pickle.dumps(remark)) == remark

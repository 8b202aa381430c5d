"""Archives of the cache: what is exported is found where it is imported; nothing else gets in."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.compile_cache import PROGRAM, VERSIONS, count_lowered, set_versions, use_cache

import coda_ir
from coda_ir.cache import archive
from coda_ir.cache.archive import ArchiveError, Contents, export_cache, import_cache
from coda_ir.cache.folder import program_path, write_whole
from coda_ir.cache.programs import Entry
from coda_ir.diagnostics import CodaError

FOLDER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
LAUNCHER = "LAUNCHER234567ABCDEFGH"
KEY = "0" * 64


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    """A program of a cache."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = use_cache(monkeypatch, tmp_path_factory.mktemp("program"))
        coda_ir.compile(PROGRAM, device="cpu")
        (path,) = (folder / "programs").iterdir()
        return Entry.from_bytes(path.read_bytes())


@pytest.fixture
def cache(program: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache with one program; Triton has compiled one of its kernels."""
    folder = use_cache(monkeypatch, tmp_path)
    write_whole(program_path(program.header.key), program.to_bytes())
    kernel, triton = program.artifact.kernels[0], tmp_path / "triton"
    add_kernel(triton / FOLDER, kernel, "/home/a/modules/layer_0123456789abcdef.py")
    add_kernel(triton / f"{FOLDER}FOREIGN", kernel, "/home/a/flash_attention.py")
    add_kernel(triton / f"{FOLDER}OTHER", "other_kernel", "/home/a/layer_0123456789abcdef.py")
    (triton / LAUNCHER).mkdir()
    (triton / LAUNCHER / "__triton_launcher.cpython-311-x86_64-linux-gnu.so").write_bytes(b"ELF")
    return folder


def add_kernel(folder: Path, name: str, module: str) -> None:
    """What Triton's FileCacheManager writes for a kernel."""
    files = {f"{name}.ttir": f'#loc = loc("{module}":10:0)', f"{name}.cubin": "cubin"}
    files[f"{name}.json"] = json.dumps({"name": name})
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text)
    paths = {file: str(folder / file) for file in files}
    (folder / f"__grp__{name}.json").write_text(json.dumps({"child_paths": paths}))


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


class TestRoundTrip:
    def test_an_imported_cache_is_warm(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        file, there = tmp_path / "a.coda-cache", tmp_path / "there"
        assert export_cache(file) == Contents(programs=1, kernels=2)
        use_cache(monkeypatch, there)
        assert import_cache(file) == Contents(programs=1, kernels=2)
        lowered = count_lowered(monkeypatch)
        kernel = coda_ir.compile(PROGRAM, device="cpu").kernels[0]
        assert lowered() == 0
        group = json.loads((there / "triton" / FOLDER / f"__grp__{kernel}.json").read_text())
        assert sorted(group["child_paths"]) == [f"{kernel}.{e}" for e in ("cubin", "json", "ttir")]
        for name, path in group["child_paths"].items():
            assert Path(path) == there / "triton" / FOLDER / name
            assert Path(path).read_bytes() == (tmp_path / "triton" / FOLDER / name).read_bytes()
        assert {path.name for path in (there / "triton").iterdir()} == {FOLDER, LAUNCHER}

    def test_again_changes_nothing(self, cache: Path, tmp_path: Path):
        export_cache(tmp_path / "a.zip")
        before = files_below(tmp_path)
        import_cache(tmp_path / "a.zip")
        assert files_below(tmp_path) == before

    def test_chosen_functions(self, cache: Path, tmp_path: Path):
        coda_ir.compile(PROGRAM.replace("layer", "other"), device="cpu")
        assert export_cache(tmp_path / "a.zip", ["other"]).programs == 1
        assert export_cache(tmp_path / "a.zip", with_kernels=False) == Contents(2, 0)
        with pytest.raises(ArchiveError, match="no program 'no'\n  help: its programs are: layer"):
            export_cache(tmp_path / "a.zip", ["other", "no"])

    def test_programs_of_other_versions_are_left_out(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        export_cache(tmp_path / "a.zip")
        use_cache(monkeypatch, tmp_path / "there")
        set_versions(monkeypatch, VERSIONS | {"triton": "2"})
        assert import_cache(tmp_path / "a.zip") == Contents(0, 2, outdated=1)
        assert not (tmp_path / "there" / "cache").exists()

    def test_an_empty_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        use_cache(monkeypatch, tmp_path)
        with pytest.raises(ArchiveError, match="the cache has no programs"):
            export_cache(tmp_path / "a.zip")
        assert not (tmp_path / "a.zip").exists()

    def test_a_cache_that_is_off(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        export_cache(tmp_path / "a.zip")
        monkeypatch.setenv("CODA_CACHE_LIMIT", "0")
        with pytest.raises(CodaError, match="switched off\n  help: unset CODA_CACHE_LIMIT"):
            import_cache(tmp_path / "a.zip")


def write_archive(path: Path, files: Mapping[str, bytes], manifest: object = None) -> None:
    manifest = {"format": archive.FORMAT} if manifest is None else manifest
    with zipfile.ZipFile(path, "w") as file:
        if manifest:
            file.writestr(archive.MANIFEST, json.dumps(manifest))
        for name, data in files.items():
            file.writestr(name, data)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "overwritten": lambda data: data[:200] + bytes(50) + data[250:],
    "one byte": lambda data: data[:2000] + bytes([data[2000] ^ 255]) + data[2001:],
}


class TestRefused:
    """Nothing is written when an archive is not what it should be."""

    def check(self, file: Path, message: str) -> None:
        folder = file.parent
        before = files_below(folder)
        with pytest.raises(ArchiveError, match=message):
            import_cache(file)
        assert files_below(folder) == before

    @pytest.mark.parametrize(
        "name",
        [
            "../escaped.py",
            "/etc/escaped",
            f"programs/../../{KEY}.json",
            f"programs/{KEY}.json/../../x",
            f"programs/{KEY[1:]}.json",
            f"programs\\{KEY}.json",
            f"modules/layer_{KEY[:16]}.py",
            f"triton/{FOLDER}/../../x",
            f"triton/{FOLDER}/.hidden",
            f"triton/{FOLDER}/a\nb",
            f"triton/{FOLDER}/",
            f"triton/../{FOLDER}/x",
            "triton/lower/x",
            "C:/x",
        ],
    )
    def test_unsafe_names(self, cache: Path, tmp_path: Path, name: str):
        good = {f"triton/{FOLDER}NEW/kernel.cubin": b"data"}
        write_archive(tmp_path / "a.zip", good | {name: b"data"})
        self.check(tmp_path / "a.zip", "unsafe or unknown name ")

    def test_a_link_is_written_as_a_file(self, cache: Path, tmp_path: Path):
        """Only the bytes of an archive are used: what it says about its files is not."""
        link = zipfile.ZipInfo(f"triton/{FOLDER}LINK/kernel.cubin")
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
            file.writestr(archive.MANIFEST, json.dumps({"format": archive.FORMAT}))
            file.writestr(link, "/etc/passwd")
        import_cache(tmp_path / "a.zip")
        written = tmp_path / "triton" / f"{FOLDER}LINK" / "kernel.cubin"
        assert not written.is_symlink() and written.read_text() == "/etc/passwd"

    @pytest.mark.parametrize(
        "manifest, message",
        [
            ({}, "not an archive of the cache: no coda-ir-cache.json\n  help: make one with"),
            ([1], "not an archive of the cache"),
            ({"other": 1}, "not an archive of the cache"),
            ({"format": 99}, "an archive of format 99, expected 1\n  help: export it again"),
        ],
    )
    def test_other_formats(self, cache: Path, tmp_path: Path, manifest: object, message: str):
        write_archive(tmp_path / "a.zip", {}, manifest)
        self.check(tmp_path / "a.zip", message)

    @pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04" + bytes(100)])
    def test_files_that_are_no_archives(self, cache: Path, tmp_path: Path, data: bytes):
        (tmp_path / "a.zip").write_bytes(data)
        self.check(tmp_path / "a.zip", "a.zip: not an archive of the cache: ")

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_damaged_archives(self, cache: Path, tmp_path: Path, damage: str):
        export_cache(tmp_path / "a.zip")
        data = (tmp_path / "a.zip").read_bytes()
        (tmp_path / "a.zip").write_bytes(DAMAGES[damage](data))
        self.check(tmp_path / "a.zip", "a.zip: not an archive of the cache: ")

    def test_programs_that_are_not_what_they_are_called(self, cache: Path, tmp_path: Path):
        (path,) = (cache / "programs").iterdir()
        write_archive(tmp_path / "a.zip", {f"programs/{KEY}.json": path.read_bytes()})
        self.check(tmp_path / "a.zip", f"program 000000000000 is {path.name[:12]}")
        write_archive(tmp_path / "a.zip", {f"programs/{KEY}.json": b"{}"})
        self.check(tmp_path / "a.zip", "program 000000000000: the checksum is wrong")

    @pytest.mark.parametrize("data", [b"no", b"[]", b"{}", b'{"child_paths": 3}', b"\xff"])
    def test_lists_of_files_that_triton_does_not_write(
        self, cache: Path, tmp_path: Path, data: bytes
    ):
        write_archive(tmp_path / "a.zip", {f"triton/{FOLDER}NEW/__grp__k.json": data})
        self.check(tmp_path / "a.zip", "__grp__k.json: ")

    def test_more_than_fits(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        export_cache(tmp_path / "a.zip")
        monkeypatch.setattr(archive, "LARGEST", 1000)
        self.check(tmp_path / "a.zip", r"has \d+ KiB, at most 1000 B")


COMPILE_HERE_AND_THERE = """
import os, sys
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from coda_ir.calls.arguments import Signature
from coda_ir.cache import load_source
from coda_ir.cache.archive import export_cache, import_cache
from coda_ir.cache.artifact import Artifact
from coda_ir.cache.folder import program_path, write_whole
from coda_ir.cache.programs import Entry, Header

SOURCE = '''import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, 1.0)
'''
hits = []
triton.knobs.compilation.listener = lambda **told: hits.append(told["cache_hit"])

def compile_kernel():
    for name in [name for name in sys.modules if name.startswith("coda_ir_cache")]:
        del sys.modules[name]
    source = ASTSource(load_source(SOURCE, "f").kernel, {"x_ptr": "*fp32"}, {}, {})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]

def use(folder):
    os.environ["CODA_CACHE_DIR"] = str(folder / "cache")
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")

root = Path(sys.argv[1])
use(root / "here")
first = compile_kernel()
artifact = Artifact(Signature("f", (), ()), (), SOURCE, ("kernel",), {})
entry = Entry(Header("0" * 64, "f", "sm_90", {}, 0.0), artifact, {})
write_whole(program_path(entry.header.key), entry.to_bytes())
assert export_cache(root / "a.zip").kernels == 1
use(root / "there")
import_cache(root / "a.zip")
assert compile_kernel() == first
print(hits)
"""


def test_triton_finds_imported_kernels(tmp_path: Path):
    """A kernel that is compiled for a GPU here is not compiled again from an imported cache."""
    environment = {"TRITON_INTERPRET": "0", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE_HERE_AND_THERE, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[False, True]"

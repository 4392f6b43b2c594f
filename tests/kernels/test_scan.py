"""What is found in caches, whatever release wrote them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cudalock.errors import UsageError
from cudalock.kernels import CacheEntry, cache_folders, read_caches
from support.kernel_caches import LAYOUTS, add_kernel, add_library, age, key_of


def only(cache: Path) -> CacheEntry:
    (found,) = read_caches({"TRITON_CACHE_DIR": str(cache), "TORCHINDUCTOR_CACHE_DIR": str(cache / "none")})
    (entry,) = found.entries
    return entry


@pytest.mark.parametrize("version", LAYOUTS)
def test_each_layout_is_read(tmp_path: Path, version: str) -> None:
    folder = add_kernel(tmp_path, version, 90)
    entry = only(tmp_path)
    assert (entry.path, entry.kind, entry.name) == (folder, "kernel", "add_k")
    assert entry.layout == LAYOUTS[version]
    assert (entry.backend, entry.architecture) == ("cuda", "sm_90")
    assert entry.triton == (version if version.startswith(("3.3", "3.6")) else None)
    assert entry.size_bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert entry.fault is None
    assert entry.busy is None


def test_libraries_tell_their_python(tmp_path: Path) -> None:
    add_library(tmp_path, "3.6.0", "cuda_utils.cpython-313t-x86_64-linux-gnu.so")
    add_library(tmp_path, "3.0.0", "__triton_launcher.so")
    (cache,) = read_caches(folders=[tmp_path])
    assert {(entry.name, entry.python, entry.kind) for entry in cache.entries} == {
        ("cuda_utils", "cpython-313t", "library"),
        ("__triton_launcher", None, "library"),
    }


def test_a_kernel_for_amd_keeps_its_name(tmp_path: Path) -> None:
    folder = add_kernel(tmp_path, "3.6.0", 90)
    metadata = json.loads((folder / "add_k.json").read_text())
    metadata["target"] = {"backend": "hip", "arch": "gfx942", "warp_size": 64}
    (folder / "add_k.json").write_text(json.dumps(metadata))
    assert (only(tmp_path).backend, only(tmp_path).architecture) == ("hip", "gfx942")


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("add_k.json", b"{", "corrupt: add_k.json: no JSON"),
        ("add_k.json", b"[]", "corrupt: add_k.json: no object"),
        ("add_k.json", b"{}", "corrupt: add_k.json: no target"),
        ("add_k.json", None, "corrupt: add_k.json is missing"),
        ("__grp__add_k.json", b"\xff", "corrupt: __grp__add_k.json: no JSON"),
        ("__grp__add_k.json", None, "unfinished"),
        ("add_k.cubin", b"", "corrupt: add_k.cubin holds no machine code"),
        ("add_k.cubin", b"<html>", "corrupt: add_k.cubin holds no machine code"),
        ("add_k.cubin", None, "corrupt: add_k.cubin is missing"),
    ],
)
def test_faults_are_named(tmp_path: Path, file: str, content: bytes | None, fault: str) -> None:
    folder = add_kernel(tmp_path, "3.6.0", 90)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    assert only(tmp_path).fault == fault


def test_a_moved_cache_is_seen(tmp_path: Path) -> None:
    add_kernel(tmp_path / "old", "3.6.0", 90)
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert str(only(tmp_path / "new").fault).startswith(f"moved: it looks for its files in {tmp_path / 'old'}")


def test_a_copied_cache_still_finds_the_original(tmp_path: Path) -> None:
    add_kernel(tmp_path / "old", "3.6.0", 90)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    assert only(tmp_path / "new").fault is None


def test_recorded_timings_are_no_corrupt_kernel(tmp_path: Path) -> None:
    folder = tmp_path / key_of("3.6.0", "timings")
    folder.mkdir()
    (folder / "add_k.autotune.json").write_text('{"key": [], "configs_timings": []}')
    assert (only(tmp_path).kind, only(tmp_path).fault) == ("autotune", None)


def test_an_interrupted_compilation_is_a_fragment(tmp_path: Path) -> None:
    folder = tmp_path / key_of("3.6.0", "half")
    folder.mkdir()
    (folder / "add_k.ttir").write_text("module {}")
    assert (only(tmp_path).kind, only(tmp_path).fault) == ("fragment", "unfinished")


def test_links_and_other_files_are_foreign(tmp_path: Path) -> None:
    elsewhere = add_kernel(tmp_path / "elsewhere", "3.6.0", 90)
    cache = tmp_path / "cache"
    add_kernel(cache, "3.6.0", 80)
    (cache / key_of("3.6.0", "link")).symlink_to(elsewhere)
    (cache / "notes.txt").write_text("mine")
    (found,) = read_caches(folders=[cache])
    assert len(found.entries) == 1
    assert found.foreign == (*sorted([key_of("3.6.0", "link"), "notes.txt"]),)


def test_the_variables_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    monkeypatch.setenv("LOGNAME", "a/b")
    default = [str(path) for path, _ in cache_folders({})]
    assert default == [str(tmp_path / ".triton/cache"), str(tmp_path / "temp/torchinductor_a_b")]
    named = cache_folders({"TRITON_HOME": "/x", "TORCHINDUCTOR_CACHE_DIR": "/y"})
    assert (Path("/x/.triton/cache"), "TRITON_HOME") in named
    assert (Path("/y"), "TORCHINDUCTOR_CACHE_DIR") in named
    assert cache_folders({"TRITON_CACHE_DIR": "/z", "TRITON_HOME": "/x"})[0] == (Path("/z"), "TRITON_CACHE_DIR")
    assert read_caches({}) == ()


def make_inductor(root: Path) -> Path:
    """As torch 2.5 and later leave it: generated code in two-letter folders, graphs, locks, Triton below the device."""
    name = "c" + "a" * 51
    for file in (f"aa/{name}.py", f"fxgraph/f7/f{name}/{name}", "locks/x.lock", "aotautograd/a/b"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x")
    add_kernel(root / "triton" / "0", "3.6.0", 90)
    add_kernel(root / "triton" / "1", "3.3.1", 90)
    age(root)
    return root


def test_an_inductor_cache_has_sections_and_triton_caches(tmp_path: Path) -> None:
    make_inductor(tmp_path)
    inductor, first, second = read_caches(folders=[tmp_path])
    assert inductor.kind == "inductor"
    assert [section.name for section in inductor.sections] == ["aa", "aotautograd", "fxgraph", "locks"]
    assert inductor.foreign == ()
    assert [first.origin, second.origin] == ["inductor", "inductor"]
    assert [first.entries[0].triton, second.entries[0].triton] == ["3.6.0", "3.3.1"]


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a1").mkdir()
    (tmp_path / "a1" / "letter.txt").write_text("x")
    with pytest.raises(UsageError) as caught:
        read_caches(folders=[tmp_path])
    assert caught.value.code == "not-a-kernel-cache"
    with pytest.raises(UsageError) as caught:
        read_caches(folders=[tmp_path / "none"])
    assert caught.value.code == "kernel-cache-missing"
    (tmp_path / "empty").mkdir()
    (empty,) = read_caches(folders=[tmp_path / "empty"])
    assert empty.entries == ()

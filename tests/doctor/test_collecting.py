"""The parts of the collector that read files nobody vouches for."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from cudalock.doctor.collect.elf import SymbolTable, read_elf, read_fatbin
from cudalock.doctor.collect.interpreter import find_environment, read_interpreter
from cudalock.doctor.collect.loader import Loader, read_cache, version_in_name
from cudalock.doctor.collect.tools import relevant_variables
from cudalock.errors import UsageError
from support.doctoring import fatbin, library, needs_compiler


@needs_compiler
def test_dynamic_section(tmp_path: Path) -> None:
    first = library(tmp_path / "libfirst.so.1")
    facts = read_elf(library(tmp_path / "libsecond.so", needs=[first], runpath="$ORIGIN/here"))
    assert facts is not None
    assert (facts.soname, facts.needed, facts.runpath) == ("libsecond.so", ("libfirst.so.1",), ("$ORIGIN/here",))


@needs_compiler
def test_the_loaders_answer_is_the_real_loaders(tmp_path: Path) -> None:
    """ld.so itself is asked about the same file, with the same LD_LIBRARY_PATH."""
    for folder in ("a", "b"):
        library(tmp_path / folder / "libdep.so.1")
    top = library(tmp_path / "libtop.so", needs=[tmp_path / "a/libdep.so.1"], runpath="$ORIGIN/a")
    for environ in ({}, {"LD_LIBRARY_PATH": str(tmp_path / "b")}):
        shown = subprocess.run(
            ["ldd", str(top)], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin", **environ}
        ).stdout
        (real,) = [line.split("=>")[1].split()[0] for line in shown.splitlines() if "libdep" in line]
        ours = Loader(environ, machine="x86_64").load([top])["libdep.so.1"]
        assert str(ours.path) == real


def test_the_cache_names_the_c_library() -> None:
    import os

    cache = read_cache(Path("/etc/ld.so.cache"), os.uname().machine)
    if not cache:
        pytest.skip("no ld.so.cache here")
    assert "libc.so.6" in cache


@pytest.mark.parametrize("content", [b"", b"glibc-ld.so.cache1.1" + struct.pack("<II", 10**6, 0) + bytes(40), b"text"])
def test_broken_caches(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cache").write_bytes(content)
    assert read_cache(tmp_path / "cache", "x86_64") == {}


@needs_compiler
def test_gpu_code(tmp_path: Path) -> None:
    facts = read_fatbin(library(tmp_path / "lib.so", source=fatbin(("code", 80), ("code", 120), ("ptx", 90))))
    assert facts is not None
    assert [str(item) for item in facts.code] == ["sm_80", "compute_90", "sm_120"]
    assert facts.ptx_isa == (9, 0)
    assert read_fatbin(library(tmp_path / "plain.so")) is None


@needs_compiler
@pytest.mark.parametrize("at", [0, 4, 20, 100, 400, 900])
def test_broken_files(tmp_path: Path, at: int) -> None:
    """Cut short or overwritten, a file gives no answer or a partial one, and never an exception."""
    content = library(tmp_path / "lib.so", source=fatbin(("code", 80))).read_bytes()
    for spoiled in (content[:at], content[:at] + b"\xff" * 64 + content[at + 64 :]):
        (tmp_path / "spoiled.so").write_bytes(spoiled)
        read_elf(tmp_path / "spoiled.so")
        read_fatbin(tmp_path / "spoiled.so")


@needs_compiler
def test_symbols(tmp_path: Path) -> None:
    table = SymbolTable(
        [library(tmp_path / "lib.so", source="void here(void) {} extern void gone(void); void g(void) { gone(); }")]
    )
    assert (table.defines("here"), table.defines("gone"), table.complete) == (True, False, True)
    table.close()


@pytest.mark.parametrize(
    ("name", "version"),
    [("libcudnn.so.9.10.2", "9.10.2"), ("libcudnn.so.9", None), ("libcuda.so.580.159.04", "580.159.04"), ("x", None)],
)
def test_version_in_name(name: str, version: str | None) -> None:
    assert version_in_name(Path(name)) == version


def test_secrets_are_left_out() -> None:
    environ = {"TORCH_HOME": "/x", "TORCH_HUB_TOKEN": "secret", "NVIDIA_API_KEY": "secret", "HOME": "/root"}
    assert relevant_variables(environ) == {"TORCH_HOME": "/x"}


def test_environments_that_are_none(tmp_path: Path) -> None:
    cases: list[tuple[Path | None, Path | None, str]] = [
        (tmp_path / "none", None, "venv-missing"),
        (tmp_path, None, "venv-invalid"),
        (None, tmp_path / "python", "python-missing"),
    ]
    for venv, python, code in cases:
        with pytest.raises(UsageError) as caught:
            find_environment(venv, python, {})
        assert caught.value.code == code


def test_a_python_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("version_info = 3.12.4\n")
    python = tmp_path / "bin/python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    found = read_interpreter(python, {})
    assert (found.asked, found.version) == (False, "3.12.4")
    assert found.site == (tmp_path / "lib/python3.12/site-packages",)

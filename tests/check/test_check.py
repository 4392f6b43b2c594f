"""check: a lock against a machine and against real environments, offline and without importing what it checks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from uv import find_uv_bin

from cudalock.check import CheckReport, check
from cudalock.errors import UsageError
from cudalock.host.model import Gpu, Host
from cudalock.lock import read_environment, read_lock, write_lock
from cudalock.lock.environment import INCOMPLETE_MARKER
from cudalock.lock.model import Lock
from cudalock.versions import ComputeCapability, DriverVersion
from support.locks import a_lock, linux_target
from support.wheels import make_wheel

VERSION = sys.version_info[:2]
MACHINE = os.uname().machine
TARGET = linux_target("9.0", python=VERSION, machine=MACHINE)
LOCK = a_lock(TARGET)
HOST = Host(
    os="linux", machine=MACHINE, libc=("glibc", (2, 35)), driver=DriverVersion("580.65.06"), gpus_known=True,
    gpus=(Gpu(index=0, name="NVIDIA H100", compute_capability=ComputeCapability(9, 0)),),
)  # fmt: skip
TORCH_VERSION_FILE = (
    "from typing import Optional\n__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\nhip = None\n"
)
WHEELS = {
    ("torch", "2.9.1+cu128"): {
        "torch/__init__.py": b"raise RuntimeError('imported')\n",
        "torch/version.py": TORCH_VERSION_FILE.encode(),
    },
    ("triton", "3.5.1"): {"triton/__init__.py": b"raise RuntimeError('imported')\n"},
    ("sympy", "1.14.0"): None,
    ("mpmath", "1.3.0"): None,
}


def install(venv: Path, folder: Path, *wheels: tuple[str, str, dict[str, bytes] | None]) -> None:
    paths = []
    for name, version, files in wheels:
        filename, content = make_wheel(name, version, files=files)
        paths.append(folder / filename)
        paths[-1].write_bytes(content)
    command = [find_uv_bin(), "pip", "install", "--no-deps", "--no-index", "--reinstall", "--python", str(venv)]
    subprocess.run([*command, *map(str, paths)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real environment that holds exactly the lock."""
    folder = tmp_path_factory.mktemp("genuine")
    command = [find_uv_bin(), "venv", "--no-project", "--python", sys.executable, str(folder / "venv")]
    subprocess.run(command, check=True, capture_output=True)
    install(folder / "venv", folder, *((name, version, files) for (name, version), files in WHEELS.items()))
    return folder / "venv"


@pytest.fixture
def venv(genuine: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may spoil."""
    shutil.copytree(genuine, tmp_path / "venv", symlinks=True)
    return tmp_path / "venv"


def packages(venv: Path) -> Path:
    (folder,) = (venv / "lib").glob("python*/site-packages")
    return folder


def found(report: CheckReport) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in report.findings]


def test_a_machine_and_an_environment_that_fit(genuine: Path) -> None:
    report = check(LOCK, host_target=HOST, venv=genuine)
    assert report == CheckReport()
    assert report.passed
    assert report.to_json() == {"passed": True, "findings": [], "unknown": []}


def test_the_seeds_of_an_environment_are_no_drift(venv: Path, tmp_path: Path) -> None:
    install(venv, tmp_path, ("pip", "26.0", None), ("setuptools", "80.0", None), ("wheel", "0.45", None))
    assert found(check(LOCK, venv=venv)) == []


def change_version(venv: Path, name: str, old: str, new: str) -> None:
    """The same files under another version number."""
    before = packages(venv) / f"{name}-{old}.dist-info"
    text = (before / "METADATA").read_text()
    (before / "METADATA").write_text(text.replace(f"Version: {old}", f"Version: {new}"))
    before.rename(packages(venv) / f"{name}-{new}.dist-info")


def set_torch_cuda(venv: Path, line: str) -> None:
    path = packages(venv) / "torch" / "version.py"
    path.write_text(TORCH_VERSION_FILE.replace("cuda: Optional[str] = '12.8'", line))


def remove(venv: Path, name: str, *parts: str) -> None:
    (folder,) = packages(venv).glob(f"{name}-*.dist-info")
    if parts:
        (folder / parts[0]).unlink()
    else:
        shutil.rmtree(folder)


def torch_for_cpu(venv: Path) -> None:
    change_version(venv, "torch", "2.9.1+cu128", "2.9.1+cpu")
    (packages(venv) / "torch" / "version.py").unlink()


def without_two(venv: Path) -> None:
    remove(venv, "sympy")
    remove(venv, "mpmath")


def cut_short(venv: Path) -> None:
    (venv / INCOMPLETE_MARKER).write_text("{}")


SPOILED: dict[str, tuple[Callable[[Path], None], list[tuple[str, str]], str]] = {
    "triton replaced": (
        lambda venv: change_version(venv, "triton", "3.5.1", "3.6.0"),
        [("triton-off-pin", "error")],
        "triton 3.6.0 is installed, and torch and the lock need 3.5.1",
    ),
    "torch of another label": (
        lambda venv: change_version(venv, "torch", "2.9.1+cu128", "2.9.1+cu126"),
        [("torch-not-from-lock", "error")],
        "torch 2.9.1+cu126 is installed, and the lock has 2.9.1+cu128",
    ),
    "torch for the CPU by its label": (
        torch_for_cpu,
        [("torch-is-cpu-build", "error")],
        "the installed torch 2.9.1+cpu is a CPU build",
    ),
    "torch for the CPU under the same version": (
        lambda venv: set_torch_cuda(venv, "cuda = None"),
        [("torch-is-cpu-build", "error")],
        "the installed torch 2.9.1+cu128 is a CPU build, and the lock's is for CUDA 12.8",
    ),
    "torch of another CUDA under the same version": (
        lambda venv: set_torch_cuda(venv, "cuda: str | None = '13.0'"),
        [("torch-not-from-lock", "error")],
        "is for CUDA 13.0, and the lock's is for 12.8",
    ),
    "missing": (lambda venv: remove(venv, "sympy"), [("lock-drift", "error")], "1 package of the lock is not installed: sympy"),
    "two missing": (
        without_two,
        [("lock-drift", "error")],
        "2 packages of the lock are not installed: mpmath, sympy",
    ),
    "another version": (
        lambda venv: change_version(venv, "sympy", "1.14.0", "1.13.0"),
        [("lock-drift", "error")],
        "sympy 1.13.0 instead of 1.14.0",
    ),
    "a version that is none": (
        lambda venv: change_version(venv, "sympy", "1.14.0", "unknown"),
        [("lock-drift", "error")],
        "sympy unknown instead of 1.14.0",
    ),
    "no RECORD": (lambda venv: remove(venv, "sympy", "RECORD"), [("lock-drift", "error")], "sympy is installed incompletely"),
    "no METADATA": (lambda venv: remove(venv, "sympy", "METADATA"), [("lock-drift", "error")], "sympy is installed incompletely"),
    "twice": (
        lambda venv: (packages(venv) / "sympy-1.13.0.dist-info").mkdir(),
        [("lock-drift", "error"), ("lock-drift", "error"), ("files-clobbered", "error")],
        "sympy is installed 2 times: 1.13.0 and 1.14.0",
    ),
    "cut short": (
        cut_short,
        [("venv-incomplete", "error")],
        "was begun and did not end",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILED)
def test_an_environment_that_somebody_changed(venv: Path, how: str) -> None:
    spoil, codes, said = SPOILED[how]
    spoil(venv)
    report = check(LOCK, host_target=HOST, venv=venv)
    assert found(report) == codes
    assert any(said in finding.message for finding in report.findings), report.findings
    assert all(finding.fix for finding in report.findings)
    assert not report.passed
    json.dumps(report.to_json())


def test_two_tritons_own_the_same_files(venv: Path, tmp_path: Path) -> None:
    install(venv, tmp_path, ("pytorch-triton", "3.5.1+git1", {"triton/__init__.py": b""}))
    report = check(LOCK, venv=venv)
    assert ("triton-two-distributions", "error") in found(report)
    assert "triton 3.5.1 and pytorch-triton 3.5.1+git1" in report.findings[0].message


def test_packages_beyond_the_lock_are_a_warning(venv: Path, tmp_path: Path) -> None:
    install(venv, tmp_path, ("extra-one", "1.0", None), ("Extra.Two", "2.0", None))
    report = check(LOCK, venv=venv)
    assert found(report) == [("lock-drift", "warning")]
    assert report.findings[0].message == (
        "2 packages are installed that the lock does not have: extra-one 1.0, extra-two 2.0"
    )
    assert report.passed


def test_nccl_has_a_finding_of_its_own(venv: Path, tmp_path: Path) -> None:
    from cudalock.compat.model import Policy
    from cudalock.lock import build_lock
    from cudalock.resolve.model import Resolution
    from support.locks import pin, request

    lock = build_lock(
        Resolution(pins=(pin("nvidia_nccl_cu12-2.27.5-py3-none-any.whl"),)),
        TARGET,
        request("nvidia-nccl-cu12"),
        Policy(),
    )
    install(venv, tmp_path, ("nvidia-nccl-cu12", "2.26.2", None))
    report = check(lock, venv=venv)
    assert found(report) == [("nccl-off-pin", "error"), ("lock-drift", "warning")]


def test_the_environments_python_is_the_one_that_counts(genuine: Path) -> None:
    other = a_lock(linux_target("9.0", python=(VERSION[0], VERSION[1] + 1), machine=MACHINE))
    for report in (check(other, venv=genuine), check(other, host_target=HOST, venv=genuine)):
        assert found(report) == [("lock-not-for-this-machine", "error")]
        assert f"the environment has Python {VERSION[0]}.{VERSION[1]}" in report.findings[0].message
    assert found(check(other, host_target=HOST)) == []


def test_errors_come_first_and_the_machine_and_the_environment_are_both_judged(venv: Path, tmp_path: Path) -> None:
    install(venv, tmp_path, ("extra", "1.0", None))
    old = replace(HOST, driver=DriverVersion("470.57.02"))
    report = check(LOCK, host_target=old, venv=venv)
    assert found(report) == [("driver-too-old", "error"), ("lock-drift", "warning")]


def test_an_edited_lock_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "pylock.toml"
    write_lock(path, LOCK)
    path.write_text(path.read_text().replace("torch>=2.8", "torch>=2.7"))
    report = check(read_lock(path), host_target=HOST)
    assert found(report) == [("lock-digest-mismatch", "warning")]
    assert report.passed


def test_another_tools_lock_is_compared_as_far_as_it_goes(genuine: Path, tmp_path: Path) -> None:
    path = tmp_path / "pylock.toml"
    hashes = "hashes = {sha256 = '00'}"
    path.write_text(
        "lock-version = '1.0'\ncreated-by = 'other'\n"
        f"[[packages]]\nname = 'sympy'\nversion = '1.13'\nwheels = [{{name = 'sympy-1.13-py3-none-any.whl', url = 'x', {hashes}}}]\n"
        f"[[packages]]\nname = 'other'\nmarker = \"sys_platform == 'win32'\"\narchive = {{url = 'x', {hashes}}}\n"
        f"[[packages]]\nname = 'mpmath'\narchive = {{url = 'https://files.example/mpmath.whl', {hashes}}}\n"
    )
    report = check(read_lock(path), host_target=HOST, venv=genuine)
    assert found(report) == [("lock-drift", "error"), ("lock-drift", "warning")]
    assert "sympy 1.14.0 instead of 1.13" in report.findings[0].message
    assert len(report.unknown) == 1


def test_a_machine_without_a_driver_is_unknown() -> None:
    report = check(LOCK, host_target=Host(os="linux", machine=MACHINE))
    assert report.passed
    assert report.unknown == ("the driver and the GPUs of this machine",)


@pytest.mark.parametrize(
    ("make", "code"), [("nothing", "venv-missing"), ("file", "venv-is-file"), ("folder", "venv-invalid")]
)
def test_what_is_no_environment(tmp_path: Path, make: str, code: str) -> None:
    path = tmp_path / "venv"
    if make == "file":
        path.write_text("")
    elif make == "folder":
        path.mkdir()
    with pytest.raises(UsageError) as caught:
        check(LOCK, venv=path)
    assert caught.value.code == code


def test_an_environment_whose_configuration_says_little(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_bytes(b"home = /usr/bin\n\xff\n")
    environment = read_environment(tmp_path)
    assert environment.python is None
    assert environment.packages == {}
    free = tmp_path / "lib" / "python3.14t" / "site-packages"
    free.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("version_info = 3.14.1.final.0\n")
    assert str(read_environment(tmp_path).python) == "3.14t"


def test_check_imports_nothing_that_takes_long(tmp_path: Path, genuine: Path) -> None:
    """No network library, no resolver, no drawing, no NVML, and above all no torch."""
    path = tmp_path / "pylock.toml"
    write_lock(path, LOCK)
    program = (
        "import sys; from pathlib import Path; from cudalock.check import check; from cudalock.lock import read_lock\n"
        "report = check(read_lock(Path(sys.argv[1])), venv=Path(sys.argv[2]))\n"
        "print(report.passed, *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(genuine)], check=True, capture_output=True, text=True
    )
    passed, *modules = done.stdout.split()
    assert passed == "True"
    assert not {"httpx", "hishel", "resolvelib", "rich", "click", "pynvml", "torch", "triton", "tomli_w"} & set(modules)


def test_locks_are_values() -> None:
    def changed(lock: Lock) -> Lock:
        return replace(lock, digest=None)

    assert changed(LOCK) != LOCK
    assert a_lock(TARGET) == LOCK

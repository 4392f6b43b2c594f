"""Environments to break: a real venv with small made distributions whose libraries are real ELF files built by gcc.

The healthy one mirrors what torch 2.9.1+cu128 installs on a machine with an H200: torch with its libraries, the CUDA
wheels that it requires, triton with an assembler that tells its release. None of it can be imported.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from cudalock.doctor import DoctorReport, collect, make_report, with_reports
from cudalock.host import ProbeCommands
from support.hosts import H200_NVML, H200_TREE, answering, write_tree
from support.torch_wheels import triton_wheel
from support.wheels import make_wheel

__all__ = ["Patient", "fatbin", "library", "make_healthy", "needs_compiler"]

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here to make ELF files with")

ARCHITECTURES = "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
CUDA_WHEELS: Mapping[tuple[str, str], str] = {
    ("nvidia-cuda-runtime-cu12", "12.8.90"): "nvidia/cuda_runtime/lib/libcudart.so.12",
    ("nvidia-cudnn-cu12", "9.10.2.21"): "nvidia/cudnn/lib/libcudnn.so.9",
    ("nvidia-nccl-cu12", "2.27.5"): "nvidia/nccl/lib/libnccl.so.2",
    ("nvidia-nvjitlink-cu12", "12.8.93"): "nvidia/nvjitlink/lib/libnvJitLink.so.12",
}
_FOLDERS = ("cuda_runtime", "cudnn", "nccl", "nvjitlink")


def library(
    path: Path,
    *,
    soname: str | None = None,
    needs: Iterable[Path] = (),
    runpath: str | None = None,
    source: str = "",
    version_script: str | None = None,
) -> Path:
    """A real shared library; ``needs`` are files that it names as NEEDED, by their sonames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_name(path.name + ".c")
    code.write_text(source or "int nothing(void) { return 0; }\n")
    command = [str(COMPILER), "-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", "-o", str(path), str(code)]
    command += [str(one) for one in needs] + ["-Wl,--allow-shlib-undefined", f"-Wl,-soname,{soname or path.name}"]
    command += [f"-Wl,-rpath,{runpath}", "-Wl,--enable-new-dtags"] if runpath else []
    if version_script:
        script = path.with_name(path.name + ".map")
        script.write_text(version_script)
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, check=True, capture_output=True)
    for extra in (code, path.with_name(path.name + ".map")):
        extra.unlink(missing_ok=True)
    return path


def fatbin(*entries: tuple[str, int]) -> str:
    """C source with a ``.nv_fatbin`` section that holds these entries: ("code"|"ptx", architecture number)."""
    body = b""
    for kind, number in entries:
        version = (0, 9) if kind == "ptx" else (8, 1)
        header = struct.pack("<HHIQIIHHI", 1 if kind == "ptx" else 2, 0x101, 64, 32, 0, 0, *version, number)
        body += header.ljust(64, b"\0") + bytes(32)
    data = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
    numbers = ",".join(str(byte) for byte in data)
    return f'__attribute__((section(".nv_fatbin"), aligned(8))) const unsigned char fatbin[] = {{{numbers}}};\n'


def _wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = ()) -> Path:
    filename, content = make_wheel(name, version, files=files, requires=requires)
    path = folder / filename
    path.write_bytes(content)
    return path


def torch_files(folder: Path, *, cuda: str | None = "12.8", architectures: str = ARCHITECTURES) -> dict[str, bytes]:
    """Torch's files with its real needs: c10 <- torch_cpu <- torch_cuda <- the CUDA wheels."""
    site = folder / "site"
    runpath = ":".join(f"$ORIGIN/../../nvidia/{name}/lib" for name in _FOLDERS) + ":$ORIGIN"
    wheels = [library(site / path) for path in CUDA_WHEELS.values()]
    c10 = library(site / "torch/lib/libc10.so", source="void _ZN3c104initEv(void) {}\n")
    cpu = library(site / "torch/lib/libtorch_cpu.so", needs=[c10], runpath="$ORIGIN")
    names = [c10, cpu]
    if cuda:
        cuda_needs = [c10, cpu, *wheels]
        names.append(library(site / "torch/lib/libtorch_cuda.so", needs=cuda_needs, runpath=runpath))
    text = f'const char list[] = "\\0{architectures}";\n' if cuda else "int none;\n"
    names.append(library(site / "torch/lib/libtorch_python.so", needs=names, runpath=runpath, source=text))
    version = f"cuda: str | None = {cuda!r}\nhip = None\n"
    files = {f"torch/lib/{path.name}": path.read_bytes() for path in names}
    return {"torch/__init__.py": b"raise RuntimeError('imported')\n", "torch/version.py": version.encode(), **files}


@dataclass
class Patient:
    """An environment with its machine; a test spoils one of them and asks the doctor."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    nvml: tuple[Mapping[str, Any], ...] = H200_NVML
    libcuda: tuple[Mapping[str, Any], ...] | None = None
    nvml_error: Mapping[str, Any] | None = None
    no_driver: bool = False

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def root(self) -> Path:
        """The folder that stands for ``/``."""
        return self.folder / "root"

    @property
    def tools(self) -> Path:
        """The whole search path: a compiler and nothing else of this machine."""
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "gcc").symlink_to(str(COMPILER))
        return folder

    @property
    def site(self) -> Path:
        (site,) = (self.venv / "lib").glob("python*/site-packages")
        return site

    def install(
        self, name: str, version: str, files: Mapping[str, bytes] | None = None, requires: Sequence[str] = ()
    ) -> None:
        """Installs a made distribution as uv does, over what is there."""
        content = files if files is not None else {f"{name.replace('-', '_')}/__init__.py": b""}
        wheel = _wheel(self.folder, name, version, content, requires)
        self.install_file(wheel)

    def install_file(self, wheel: Path) -> None:
        self._uv("install", "--no-deps", "--no-index", "--reinstall", str(wheel))

    def uninstall(self, *names: str) -> None:
        self._uv("uninstall", *names)

    def _uv(self, verb: str, *arguments: str) -> None:
        command = [find_uv_bin(), "pip", verb, "--python", str(self.venv), *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def extension(self, name: str, version: str, **settings: Any) -> None:
        """Installs a distribution with one extension module that needs torch, built with these settings."""
        torch = [self.site / "torch/lib/libc10.so", self.site / "torch/lib/libtorch_cpu.so"]
        needs = [*torch, *settings.pop("needs", ())]
        package = name.replace("-", "_")
        path = library(self.folder / "built/_C.so", needs=needs, **settings)
        self.install(name, version, {f"{package}/__init__.py": b"", f"{package}/_C.so": path.read_bytes()})

    def gpu(
        self, name: str, capability: tuple[int, int], *, driver: str = "580.159.04", cuda: int = 13000, **more: Any
    ) -> None:
        """Replaces the machine's GPU and driver."""
        self.gpus([(name, capability)], driver=driver, cuda=cuda, **more)

    def gpus(
        self,
        kinds: Sequence[tuple[str, tuple[int, int]]],
        *,
        driver: str = "580.159.04",
        cuda: int = 13000,
        **more: Any,
    ) -> None:
        listed = [
            {
                "gpu": {
                    "index": index,
                    "name": name,
                    "compute_capability": list(capability),
                    "mig_enabled": False,
                    **more,
                }
            }
            for index, (name, capability) in enumerate(kinds)
        ]
        self.nvml = ({"driver": driver}, *listed, {"listed": True}, {"cuda_driver": cuda})
        tree = {"sys/module/nvidia/version": f"{driver}\n", "proc/driver/nvidia/version": _proc(driver)}
        write_tree(self.root, tree)
        shutil.rmtree(self.root / "sys/bus", ignore_errors=True)
        shutil.rmtree(self.root / "proc/driver/nvidia/gpus", ignore_errors=True)
        for old in (self.root / "usr/lib64").glob("libcuda.so*"):
            old.unlink()
        self.driver_library(driver)

    def driver_library(self, driver: str) -> None:
        """The driver's own libcuda, where the loader finds it."""
        folder = self.root / "usr/lib64"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"libcuda.so.{driver}").write_bytes(b"")
        (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{driver}")

    def examine(self, *printed: str) -> DoctorReport:
        """The real collector on the recorded machine and the real environment, then the rules.

        Args:
            printed: texts that programs printed there.
        """
        nvml = answering(self.nvml)
        if self.nvml_error is not None:
            nvml = answering([{"error": dict(self.nvml_error)}])
        commands = (
            ProbeCommands()
            if self.no_driver
            else ProbeCommands(nvml=nvml, libcuda=answering(self.libcuda) if self.libcuda else None)
        )
        environ = {"PATH": str(self.tools), "HOME": str(self.folder), "TMPDIR": str(self.folder), **self.variables}
        evidence = collect(venv=self.venv, environ=environ, root=self.root, commands=commands)
        return make_report(with_reports(evidence, printed))


def _proc(driver: str) -> str:
    return f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Apr 22 2025\nGCC version: gcc 12\n"


def make_healthy(folder: Path) -> Patient:
    """The healthy environment on a machine with one H200."""
    patient = Patient(folder)
    command = [find_uv_bin(), "venv", "--no-project", "--python", sys.executable, str(patient.venv)]
    subprocess.run(command, check=True, capture_output=True)
    built = folder / "made"
    files = torch_files(built)
    requires = [f"{name}=={version}" for name, version in CUDA_WHEELS] + ["triton==3.5.1"]
    wheels = [_wheel(folder, "torch", "2.9.1+cu128", files, requires)]
    for (name, version), path in CUDA_WHEELS.items():
        wheels.append(
            _wheel(folder, name, version, {path: (built / "site" / path).read_bytes(), "nvidia/__init__.py": b""})
        )
    filename, content = triton_wheel("3.5.1", "12.8.93")
    renamed = folder / filename.replace("cp312-cp312-manylinux_2_28_x86_64", "py3-none-any")
    renamed.write_bytes(content)
    wheels.append(renamed)
    wheels.append(_wheel(folder, "torchvision", "0.24.1+cu128", {"torchvision/__init__.py": b""}, ["torch==2.9.1"]))
    wheels.append(_wheel(folder, "numpy", "2.3.0", {"numpy/__init__.py": b""}))
    install = [find_uv_bin(), "pip", "install", "--no-deps", "--no-index", "--python", str(patient.venv)]
    subprocess.run([*install, *map(str, wheels)], check=True, capture_output=True)
    write_tree(patient.root, {**H200_TREE, "etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\n'})
    patient.driver_library("580.159.04")
    return patient

"""The ladder of probes, and how their answers become one :class:`Host`.

1. *Overrides*: ``CUDALOCK_PROBES`` names the rungs that may run (``nvml,libcuda,sysfs,nvidia-smi``); the driver and
   the GPUs themselves are overridden as target options (``--driver``, ``--gpu``), not here.
2. *nvml*: driver, CUDA version, every GPU with capability, memory and MIG mode.
3. *libcuda*: CUDA version and the GPUs' attributes; asked only for what NVML left open.
4. *sysfs* and *procfs*: driver version, kind of kernel module, GPUs by PCI id. Files only, so always read.
5. *nvidia-smi*: queried by fields when no rung above could list the GPUs.
6. *products*: the capability by PCI id or product name where every probe left it open.

NVML and libcuda run in a child process with a time limit: a probe that hangs or crashes costs seconds, not the run. A
machine without any trace of an NVIDIA driver is asked nothing at all.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cudalock.errors import UsageError
from cudalock.host.files import KernelFacts, compat_folder, find_cuda_library, nvidia_traces, read_kernel, read_text
from cudalock.host.gpus import files_gpus, library_gpus, merge_gpus, smi_gpus, with_products
from cudalock.host.model import Gpu, Host, ProbeCommands, ProbeOutcome
from cudalock.host.parsers import cuda_of, driver_of, driver_of_library, library_version_in_failure
from cudalock.host.surroundings import detect_surroundings
from cudalock.progress import SILENT, Reporter
from cudalock.versions import CudaVersion, DriverVersion

__all__ = ["RUNGS", "detect"]

if TYPE_CHECKING:
    from cudalock.host.children import LibraryAnswer, SmiAnswer

_T = TypeVar("_T")
RUNGS = ("nvml", "libcuda", "sysfs", "nvidia-smi")
_ROOT = Path("/")
_NVML_LIBRARY_NOT_FOUND = 12


def detect(
    *,
    root: Path = _ROOT,
    environ: Mapping[str, str] = os.environ,
    commands: ProbeCommands | None = None,
    thorough: bool = False,
    reporter: Reporter = SILENT,
) -> Host:
    """Reads this machine; a machine without a GPU is an answer like any other.

    Args:
        root: folder that stands for ``/``, for recorded trees; below another root no process runs unless ``commands``
            says so.
        environ: the environment to look at and to give to child processes.
        commands: replaces the commands of the rungs that need a process.
        thorough: libcuda is initialised even where NVML answered everything, which shows the errors that only
            initialisation gives (804, 803); takes up to a second longer.
        reporter: hears what each probe did.

    Raises:
        UsageError: ``probes-unknown`` if CUDALOCK_PROBES names a rung that does not exist.
    """
    allowed = _allowed_rungs(environ)
    surroundings = detect_surroundings(root=root, environ=environ)
    trace = "windows" if sys.platform == "win32" else nvidia_traces(root, environ)
    if commands is None:
        commands = _real_commands(environ) if trace and root == _ROOT else ProbeCommands()
    commands = _restricted(commands, allowed)
    answers = _climb(root, environ, commands, surroundings, read_files="sysfs" in allowed, thorough=thorough)
    if trace is None and not answers.outcomes:
        answers = answers._replace(outcomes=(_not_asked(),))
    for outcome in answers.outcomes:
        said = "answered" if outcome.answered else f"did not answer: {outcome.error}"
        reporter.message("debug", f"probe {outcome.name} {said} ({outcome.seconds:.2f} s)")
    return _host(root, environ, surroundings, answers, trace)


def _real_commands(environ: Mapping[str, str]) -> ProbeCommands:
    from cudalock.host.children import default_commands

    return default_commands(environ)


def _allowed_rungs(environ: Mapping[str, str]) -> frozenset[str]:
    text = environ.get("CUDALOCK_PROBES", "").replace(";", ",")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in RUNGS]:
        raise UsageError(
            "probes-unknown",
            f"CUDALOCK_PROBES names a probe that does not exist: {unknown[0]!r}",
            hint=f"set it to some of {','.join(RUNGS)}, or unset it",
        )
    return frozenset(names or RUNGS)


def _restricted(commands: ProbeCommands, allowed: frozenset[str]) -> ProbeCommands:
    return replace(
        commands,
        nvml=commands.nvml if "nvml" in allowed else None,
        libcuda=commands.libcuda if "libcuda" in allowed else None,
        nvidia_smi=commands.nvidia_smi if "nvidia-smi" in allowed else None,
    )


def _not_asked() -> ProbeOutcome:
    return ProbeOutcome(
        name="nvml", answered=False, error="not asked: no NVIDIA device node, kernel module or driver library is here"
    )


class _Answers(NamedTuple):
    nvml: LibraryAnswer | None
    libcuda: LibraryAnswer | None
    kernel: KernelFacts
    smi: SmiAnswer | None
    outcomes: tuple[ProbeOutcome, ...]


def _climb(
    root: Path,
    environ: Mapping[str, str],
    commands: ProbeCommands,
    surroundings: Host,
    *,
    read_files: bool,
    thorough: bool,
) -> _Answers:
    """Runs the rungs in order, each only as far as something is still open."""
    if commands.nvml or commands.libcuda or commands.nvidia_smi:
        from cudalock.host.children import LibraryProbe, ask_nvidia_smi
    else:
        kernel = read_kernel(root) if read_files else KernelFacts()
        return _Answers(nvml=None, libcuda=None, kernel=kernel, smi=None, outcomes=_files_outcome(kernel, 0.0))
    limit = commands.time_limit_s
    started = time.monotonic()
    probe = LibraryProbe("nvml", commands.nvml, environ, limit) if commands.nvml else None
    kernel = read_kernel(root) if read_files else KernelFacts()
    file_seconds = time.monotonic() - started
    nvml = probe.answer() if probe else None
    libcuda = None
    if commands.libcuda and (thorough or _open_after(nvml, surroundings)):
        # All GPUs are wanted: what hides some of them is a note for the target, not a fact of the machine.
        bare = {key: value for key, value in environ.items() if key != "CUDA_VISIBLE_DEVICES"}
        libcuda = LibraryProbe("libcuda", commands.libcuda, bare, limit).answer()
    listed = bool((nvml and nvml.listed) or (libcuda and libcuda.listed))
    smi = None
    # nvidia-smi is NVML in another coat: where NVML hung, it would hang as well.
    if commands.nvidia_smi and not listed and not (nvml and nvml.timed_out):
        smi = ask_nvidia_smi(commands.nvidia_smi, environ, limit)
    outcomes = [answer.outcome for answer in (nvml, libcuda) if answer]
    outcomes += _files_outcome(kernel, file_seconds)
    if smi:
        outcomes.append(smi.outcome)
    return _Answers(nvml=nvml, libcuda=libcuda, kernel=kernel, smi=smi, outcomes=tuple(outcomes))


def _files_outcome(kernel: KernelFacts, seconds: float) -> tuple[ProbeOutcome, ...]:
    if kernel.driver or kernel.gpus:
        return (ProbeOutcome(name="sysfs", answered=True, seconds=seconds),)
    return ()


def _open_after(nvml: LibraryAnswer | None, surroundings: Host) -> bool:
    """Whether NVML left open what libcuda could tell."""
    if nvml is None or not nvml.listed or nvml.cuda_driver is None:
        return True
    capabilities = [gpu.get("compute_capability") for gpu in nvml.gpus]
    if any(capability is None for capability in capabilities):
        return True
    # CUDA counts GPUs fastest first, NVML by PCI address: with unequal GPUs only libcuda knows what "0" stands for.
    numbered = any(part.strip().isdigit() for part in (surroundings.visible_devices or "").split(","))
    unequal = len({str(capability) for capability in capabilities}) > 1
    return numbered and unequal and surroundings.device_order != "PCI_BUS_ID"


def _host(root: Path, environ: Mapping[str, str], surroundings: Host, answers: _Answers, trace: str | None) -> Host:
    origin = dict(surroundings.origin)
    driver = _first(origin, "driver", _driver_answers(answers))
    cuda_driver = _first(origin, "cuda_driver", _cuda_answers(answers))
    if answers.kernel.kernel_module:
        origin["kernel_module"] = "procfs"
    gpus = with_products(
        merge_gpus(
            (
                ("nvml", library_gpus(answers.nvml)),
                ("libcuda", library_gpus(answers.libcuda, in_cuda_order=True)),
                ("nvidia-smi", smi_gpus(answers.smi)),
                ("sysfs", files_gpus(answers.kernel)),
            ),
            complete=_complete(answers),
        )
    )
    if not gpus and surroundings.jetson:
        gpus = with_products(_jetson_gpu(root))
    library = next((a.cuda_library for a in (answers.libcuda, answers.nvml) if a and a.cuda_library), None)
    library = library or _library_on_disk(root, environ)
    errors = (a.cuda_library_error for a in (answers.libcuda, answers.nvml) if a)
    return replace(
        surroundings,
        driver=driver,
        driver_library=_driver_library(answers, driver, surroundings),
        cuda_driver=cuda_driver,
        kernel_module=answers.kernel.kernel_module,
        gpus=gpus,
        gpus_known=bool(gpus) or _none_for_sure(answers, surroundings, trace),
        cuda_library=library,
        cuda_library_error=next((error for error in errors if error), None),
        compat_library=library if compat_folder(library) else None,
        pythons=_pythons(root, environ),
        probes=answers.outcomes,
        origin=origin,
    )


def _first(origin: dict[str, str], name: str, answers: list[tuple[str, _T | None]]) -> _T | None:
    """The first answer that is one; its probe is noted as the origin."""
    for probe, answer in answers:
        if answer is not None:
            origin[name] = probe
            return answer
    return None


def _driver_answers(answers: _Answers) -> list[tuple[str, DriverVersion | None]]:
    smi = next((gpu.driver for gpu in answers.smi.gpus if gpu.driver), None) if answers.smi else None
    return [
        ("nvml", driver_of(answers.nvml.driver) if answers.nvml else None),
        (answers.kernel.driver_from or "sysfs", answers.kernel.driver),
        ("nvidia-smi", smi),
    ]


def _cuda_answers(answers: _Answers) -> list[tuple[str, CudaVersion | None]]:
    return [
        (name, cuda_of(answer.cuda_driver) if answer else None)
        for name, answer in (("nvml", answers.nvml), ("libcuda", answers.libcuda))
    ]


def _driver_library(answers: _Answers, driver: DriverVersion | None, surroundings: Host) -> DriverVersion | None:
    """Version of the user-space library if it differs from the kernel module's: an upgrade without a reboot."""
    if surroundings.wsl or surroundings.jetson:  # numbered apart there, by design
        return None
    told = library_version_in_failure(answers.smi.outcome.error or "") if answers.smi else None
    path = answers.nvml.library if answers.nvml else None
    library = driver_of_library(path or "") or driver_of(told)
    return library if library != driver else None


def _complete(answers: _Answers) -> frozenset[str]:
    names = {
        name for name, answer in (("nvml", answers.nvml), ("libcuda", answers.libcuda)) if answer and answer.listed
    }
    if answers.smi and answers.smi.outcome.answered:
        names.add("nvidia-smi")
    return frozenset(names | {"sysfs"})


def _none_for_sure(answers: _Answers, surroundings: Host, trace: str | None) -> bool:
    """Whether an empty list of GPUs means that there are none."""
    if _complete(answers) - {"sysfs"} or surroundings.os == "darwin" or trace is None:
        return True
    if trace == "windows":
        return answers.nvml is not None and answers.nvml.outcome.error_code == _NVML_LIBRARY_NOT_FOUND
    # A PCI bus without an NVIDIA GPU settles it, except where GPUs are not on the PCI bus or their nodes are there.
    return (
        answers.kernel.pci_listed and not surroundings.wsl and not surroundings.jetson and not trace.startswith("dev/")
    )


def _jetson_gpu(root: Path) -> tuple[Gpu, ...]:
    """A Jetson has one GPU, named by its board: ``NVIDIA Jetson AGX Orin Developer Kit``."""
    model = (read_text(root, "proc/device-tree/model") or "").strip("\0\n ").removesuffix(" Developer Kit")
    return (Gpu(index=0, name=model, origin={"name": "device-tree"}),) if model else ()


def _library_on_disk(root: Path, environ: Mapping[str, str]) -> str | None:
    found = find_cuda_library(root, environ)
    if found is None:
        return None
    real = (root / found).resolve()
    return "/" + (str(real.relative_to(root.resolve())) if real.is_relative_to(root.resolve()) else str(real)[1:])


def _pythons(root: Path, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Interpreters of the search path by their names, ``python3.12`` and ``python3.14t``; none is started."""
    found: dict[str, str] = {}
    prefix = "" if root == _ROOT else str(root)
    for folder in environ.get("PATH", "").split(os.pathsep):
        for minor in range(9, 17):
            for suffix in ("", "t"):
                path = f"{folder}/python3.{minor}{suffix}"
                if folder and os.path.isfile(prefix + path):  # noqa: PTH113 - hundreds of paths, most not there
                    found.setdefault(f"3.{minor}{suffix}", path)
    return tuple(sorted(found.items(), key=lambda item: (int(item[0].rstrip("t")[2:]), item[0])))

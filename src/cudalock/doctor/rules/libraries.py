"""What the loader really finds: libcuda first, then the libraries that torch was built with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.version import Version

from cudalock.doctor.model import FoundLibrary
from cudalock.doctor.rules.situation import Situation, make_finding
from cudalock.findings import Finding
from cudalock.versions import DriverVersion

__all__ = ["RULES"]

_WAYS = ("LD_PRELOAD", "LD_LIBRARY_PATH", "RPATH", "conda")
_REMEDY = {
    "LD_PRELOAD": "take it out of LD_PRELOAD",
    "LD_LIBRARY_PATH": "take its folder out of LD_LIBRARY_PATH",
    "conda": "remove it from the conda environment: libcuda belongs to the driver",
}
_MOST_NAMED = 4


def _evidence(library: FoundLibrary) -> dict[str, object]:
    return {
        "library": library.soname,
        "path": library.path,
        "how": library.how,
        "expected": library.expected,
        "version": library.version,
        "expected_version": library.expected_version,
    }


def libcuda(situation: Situation) -> Iterator[Finding]:
    """A stub, a second libcuda before the driver's, or none at all."""
    library = situation.evidence.library("libcuda.so.1")
    stub = _stub(situation, library)
    if stub is not None:
        yield stub
        return
    if library is None:
        return
    if library.path is None:
        if situation.evidence.complete and (situation.driver or situation.host.gpus) and not situation.host.wsl:
            yield make_finding("libcuda-not-found", "the loader finds no libcuda.so.1", _evidence(library))
        return
    if _is_compat(library.path):
        # a newer one is forward compatibility, of which machine.compat_library speaks
        if _is_older_than_driver(library, situation):
            message = (
                f"{library.how} puts the older {library.path} before the libcuda.so.1 of driver {situation.driver}"
            )
            fix = _REMEDY.get(library.how or "")
            yield make_finding("libcuda-shadowed", message, _evidence(library), severity="error", fix=fix)
        return
    if library.how not in _WAYS or not _is_another(library, situation):
        return
    other = f", whose own is {library.expected}" if library.expected else ""
    message = f"{library.how} puts {library.path} before the driver's libcuda.so.1{other}"
    wrong = _differs_from_driver(library, situation)
    yield make_finding(
        "libcuda-shadowed",
        message,
        _evidence(library),
        severity="error" if wrong else "warning",
        fix=_REMEDY.get(library.how),
    )


def _is_compat(path: str) -> bool:
    return any("compat" in part for part in PurePosixPath(path).parts[:-1])


def _is_another(library: FoundLibrary, situation: Situation) -> bool:
    if library.expected is not None:
        return True
    # in a facts file or where the driver's own is nowhere else: a number that is not the driver's gives it away
    return _differs_from_driver(library, situation) or (
        library.how in {"LD_PRELOAD", "conda"} and situation.evidence.complete
    )


def _differs_from_driver(library: FoundLibrary, situation: Situation) -> bool:
    if library.version is None or situation.driver is None or situation.host.jetson:
        return False
    try:
        return DriverVersion.parse(library.version) != situation.driver
    except ValueError:
        return False


def _is_older_than_driver(library: FoundLibrary, situation: Situation) -> bool:
    if library.version is None or situation.driver is None or situation.host.jetson:
        return False
    try:
        return DriverVersion.parse(library.version) < situation.driver
    except ValueError:
        return False


def _stub(situation: Situation, library: FoundLibrary | None) -> Finding | None:
    host = situation.host
    failed = next((probe for probe in host.probes if probe.error_code == 34), None)
    words = (host.cuda_library_error or "") + (failed.error or "" if failed else "")
    path = library.path if library else None
    evidence = {"path": path, "error": words or None}
    if path and "stubs" in PurePosixPath(path).parts:
        return make_finding("libcuda-stub-loaded", f"the loader takes {path}, which only serves linking", evidence)
    if failed is not None or "stub library" in words:
        return make_finding("libcuda-stub-loaded", f"a stub of libcuda was loaded: {words}", evidence)
    folders = situation.evidence.variables.get("LD_LIBRARY_PATH", "").split(":")
    stubs = [folder for folder in folders if "stubs" in PurePosixPath(folder).parts]
    if stubs and library is None and not situation.evidence.complete:
        message = f"LD_LIBRARY_PATH holds {stubs[0]}, whose libcuda only serves linking"
        return make_finding("libcuda-stub-loaded", message, {"LD_LIBRARY_PATH": stubs})
    return None


def shadowed(situation: Situation) -> Iterator[Finding]:
    """CUDA libraries that come before those of the wheels."""
    others = [one for one in situation.evidence.libraries if one.expected and one.soname != "libcuda.so.1"]
    others = [one for one in others if not _same_release(one)]
    cudnn = [one for one in others if one.soname.startswith("libcudnn")]
    nccl = [one for one in others if one.soname.startswith("libnccl")]
    rest = [one for one in others if one not in cudnn and one not in nccl]
    if cudnn:
        yield _cudnn(cudnn)
    for library in nccl:
        yield _shadow(library, code="nccl-off-pin" if library.version else "library-shadowed")
    for folder, group in _by_folder(rest).items():
        yield _group(folder, group)


def _same_release(library: FoundLibrary) -> bool:
    """Whether the other file is a copy of the same release: ``9.10.2`` of 9.10.2.21."""
    if not library.version or not library.expected_version:
        return False
    ours, theirs = library.expected_version.split("."), library.version.split(".")
    return ours[: len(theirs)] == theirs


def _folder(library: FoundLibrary) -> str:
    return str(PurePosixPath(library.path or "").parent)


def _by_folder(libraries: list[FoundLibrary]) -> dict[str, list[FoundLibrary]]:
    found: dict[str, list[FoundLibrary]] = {}
    for library in libraries:
        found.setdefault(_folder(library), []).append(library)
    return found


def _cudnn(libraries: list[FoundLibrary]) -> Finding:
    first = libraries[0]
    release = f" {first.version}" if first.version else ""
    wanted = f" {first.expected_version}" if first.expected_version else ""
    names = ", ".join(one.soname for one in libraries[:_MOST_NAMED])
    return make_finding(
        "cudnn-mixed",
        f"{first.how} puts cuDNN{release} of {_folder(first)} before the wheel's{wanted} ({names})",
        {**_evidence(first), "libraries": [one.soname for one in libraries]},
        fix=_remedy(first),
    )


def _remedy(library: FoundLibrary) -> str:
    if library.how == "LD_LIBRARY_PATH":
        return f"take {_folder(library)} out of LD_LIBRARY_PATH"
    return _REMEDY.get(library.how or "", f"remove {library.path} from the loader's path")


def _shadow(library: FoundLibrary, *, code: str) -> Finding:
    release = f" {library.version}" if library.version else ""
    wanted = f" {library.expected_version}" if library.expected_version else ""
    message = f"{library.how} puts {library.path}{release} before the wheel's{wanted}"
    return make_finding(code, message, _evidence(library), fix=_remedy(library))


def _group(folder: str, libraries: list[FoundLibrary]) -> Finding:
    first = libraries[0]
    names = ", ".join(one.soname for one in libraries[:_MOST_NAMED])
    more = f" and {len(libraries) - _MOST_NAMED} more" if len(libraries) > _MOST_NAMED else ""
    older = any(_is_older(one) for one in libraries)
    return make_finding(
        "library-shadowed",
        f"{first.how} puts {names}{more} of {folder} before the wheels' own",
        {**_evidence(first), "libraries": [one.soname for one in libraries]},
        severity="error" if older else "warning",
        fix=_remedy(first),
    )


def _is_older(library: FoundLibrary) -> bool:
    try:
        return bool(
            library.version
            and library.expected_version
            and Version(library.version) < Version(library.expected_version)
        )
    except ValueError:
        return False


def shadowed_by_toolkit(situation: Situation) -> Iterator[Finding]:
    """A report that only names LD_LIBRARY_PATH: a toolkit of another minor there, and an error that fits."""
    evidence = situation.evidence
    build = situation.build
    if evidence.complete or not situation.reported("library-shadowed"):
        return
    for folder in evidence.variables.get("LD_LIBRARY_PATH", "").split(":"):
        match = re.search(r"cuda-(\d+\.\d+)", folder)
        if match and (build is None or str(build.cuda) != match[1]):
            message = f"LD_LIBRARY_PATH puts the libraries of CUDA {match[1]} in {folder} before the wheels' own"
            yield make_finding("library-shadowed", message, {"folder": folder}, severity="error")
            return


RULES = (libcuda, shadowed, shadowed_by_toolkit)

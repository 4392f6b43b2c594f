"""Extensions built for something else: each kind of misfit for each of the projects that people install beside torch."""

from __future__ import annotations

import pytest

from cudalock.findings import Finding
from support.doctoring import Patient, fatbin, library, needs_compiler

pytestmark = needs_compiler

RELEASES = {
    "flash-attn": "2.8.3",
    "xformers": "0.0.33.post2",
    "torchao": "0.15.0",
    "torch-scatter": "2.1.2",
    "bitsandbytes": "0.48.0",
}
IMPORTED = sorted(RELEASES.keys() - {"bitsandbytes"})
"""The projects whose libraries Python imports; bitsandbytes opens one of several by its name."""
FOREIGN_SYMBOL = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


def diagnosis(patient: Patient) -> Finding:
    """The first finding; torchao goes on without its compiled parts, which makes its misfits warnings."""
    finding = patient.examine().findings[0]
    assert finding.severity in {"error", "warning"}
    return finding


@pytest.mark.parametrize("project", IMPORTED)
def test_for_another_torch(patient: Patient, project: str) -> None:
    source = f"void {FOREIGN_SYMBOL}(void); void f(void) {{ {FOREIGN_SYMBOL}(); }}\n"
    patient.extension(project, RELEASES[project], source=source)
    finding = diagnosis(patient)
    assert (finding.code, finding.evidence["symbols"]) == ("extension-abi-mismatch", [FOREIGN_SYMBOL])
    assert project in finding.message


@pytest.mark.parametrize("project", IMPORTED)
def test_for_another_cuda_major(patient: Patient, project: str) -> None:
    runtime = library(patient.folder / "cudart/libcudart.so.13")
    patient.extension(project, RELEASES[project], needs=[runtime])
    finding = diagnosis(patient)
    assert (finding.code, finding.evidence["needs"]) == ("extension-cuda-major-mismatch", 13)
    assert project in finding.message


@pytest.mark.parametrize("project", sorted(RELEASES))
def test_for_another_gpu(patient: Patient, project: str) -> None:
    patient.extension(project, RELEASES[project], source=fatbin(("code", 80), ("code", 120)))
    finding = diagnosis(patient)
    assert (finding.code, finding.evidence["holds"]) == ("extension-lacks-gpu", ["sm_80", "sm_120"])
    assert finding.evidence["distribution"] == project


@pytest.mark.parametrize("project", IMPORTED)
@pytest.mark.parametrize("symbols", ["GLIBC_2.99", "GLIBCXX_3.4.99"])
def test_for_a_newer_system(patient: Patient, project: str, symbols: str) -> None:
    name = "libc.so.9" if symbols.startswith("GLIBC_") else "libstdc++.so.9"
    script = f"{symbols} {{ f; }};"
    future = library(patient.folder / "f" / name, source="int f(void) { return 0; }", version_script=script)
    (patient.root / "usr/lib64" / name).write_bytes(future.read_bytes())
    if name.startswith("libstdc++"):
        known = library(
            patient.folder / "k/libstdc++.so.6",
            source="int k(void) { return 0; }",
            version_script="GLIBCXX_3.4.30 { k; };",
        )
        (patient.root / "usr/lib64/libstdc++.so.6").write_bytes(known.read_bytes())
    patient.extension(project, RELEASES[project], needs=[future], source="int f(void); int g(void) { return f(); }")
    finding = diagnosis(patient)
    assert finding.code == "extension-glibc-too-new"
    assert symbols.rpartition("_")[2] in finding.evidence["needs"]


def test_bitsandbytes_whose_libraries_are_all_of_another_cuda(patient: Patient) -> None:
    patient.install("bitsandbytes", "0.48.0", {"bitsandbytes/libbitsandbytes_cuda130.so": b"made"})
    assert diagnosis(patient).code == "bitsandbytes-no-binary"


def test_bitsandbytes_with_the_library_for_torchs_cuda(patient: Patient) -> None:
    files = {f"bitsandbytes/libbitsandbytes_cuda{number}.so": b"made" for number in (126, 128)}
    patient.install("bitsandbytes", "0.48.0", files)
    assert [one.code for one in patient.examine().findings if one.severity == "error"] == []

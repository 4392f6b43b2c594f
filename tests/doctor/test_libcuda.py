"""A libcuda that is not the driver's: from conda's folder, from a compat folder, by whatever way the loader meets it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.doctoring import COMPILER, Patient, library, needs_compiler

pytestmark = needs_compiler

RTX_4090 = ("NVIDIA GeForce RTX 4090", (8, 9))
A100 = ("NVIDIA A100-SXM4-80GB", (8, 0))


def interpreter_of_conda(patient: Patient) -> None:
    """Replaces the environment's Python by a program with conda's RPATH that goes on as the same Python."""
    python = patient.venv / "bin/python"
    real = python.resolve()
    python.unlink()
    source = patient.folder / "python.c"
    source.write_text(
        "#include <unistd.h>\n"
        f'int main(int n, char **words) {{ (void)n; words[0] = "{python}"; return execv("{real}", words); }}\n'
    )
    rpath = ["-Wl,-rpath,$ORIGIN/../lib", "-Wl,--disable-new-dtags"]
    subprocess.run([str(COMPILER), "-o", str(python), str(source), *rpath], check=True, capture_output=True)


def another_libcuda(folder: Path, release: str) -> None:
    library(folder / f"libcuda.so.{release}", soname="libcuda.so.1")
    (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{release}")


def test_libcuda_in_condas_folder(patient: Patient) -> None:
    interpreter_of_conda(patient)
    another_libcuda(patient.venv / "lib", "450.80.02")
    finding = patient.examine().findings[0]
    assert (finding.code, finding.severity, finding.evidence["how"]) == ("libcuda-shadowed", "error", "conda")
    assert "conda" in str(finding.fix)


def test_condas_python_without_another_libcuda(patient: Patient) -> None:
    interpreter_of_conda(patient)
    assert [one for one in patient.examine().findings if one.severity != "info"] == []


def test_an_older_libcuda_in_a_compat_folder(patient: Patient) -> None:
    """An old image on a new host: its compat library lowers what the driver offers."""
    folder = "usr/local/cuda-12.2/compat"
    another_libcuda(patient.root / folder, "535.54.03")
    patient.gpu(*A100, cuda=12020)
    patient.nvml = (*patient.nvml, {"cuda_library": f"/{folder}/libcuda.so.535.54.03"})
    patient.variables["LD_LIBRARY_PATH"] = f"/{folder}"
    finding = patient.examine().findings[0]
    assert (finding.code, finding.severity) == ("libcuda-shadowed", "error")
    assert finding.evidence["version"] == "535.54.03"
    assert "LD_LIBRARY_PATH" in str(finding.fix)


@pytest.mark.parametrize("release", ["570.124.06", "535.54.03"])
def test_a_compat_folder_on_geforce(patient: Patient, release: str) -> None:
    folder = "usr/local/cuda/compat"
    another_libcuda(patient.root / folder, release)
    patient.gpu(*RTX_4090, driver="550.163.01", cuda=12040)
    patient.variables["LD_LIBRARY_PATH"] = f"/{folder}"
    words = "forward compatibility was attempted on non supported HW"
    patient.libcuda = ({"cuda_driver": 12080}, {"error": {"code": 804, "text": words}})
    finding = patient.examine().findings[0]
    assert (finding.code, finding.severity) == ("compat-on-geforce", "error")

"""Each kind of fault in a real environment: the collector finds it, and it is the first finding."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cudalock.doctor import DoctorReport
from cudalock.findings import Finding
from support.doctoring import Patient, fatbin, library, needs_compiler, torch_files
from support.torch_wheels import noise, triton_wheel
from support.wheels import make_wheel

pytestmark = needs_compiler


def first(report: DoctorReport) -> Finding:
    assert report.findings, report.to_json()
    return report.findings[0]


def errors(report: DoctorReport) -> list[str]:
    return [finding.code for finding in report.findings if finding.severity == "error"]


def consequences(finding: Finding) -> set[str]:
    return {one["code"] for one in finding.evidence.get("consequences", ())}


def replace_triton(patient: Patient, version: str, ptxas: str, blackwell: str | None = None) -> None:
    _, content = triton_wheel(version, ptxas, blackwell)
    wheel = patient.folder / f"triton-{version}-py3-none-any.whl"
    wheel.write_bytes(content)
    patient.install_file(wheel)


def assembler(path: Path, release: str) -> Path:
    short = ".".join(release.split(".")[:2])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(noise(5000) + f"\0Cuda compilation tools, release {short}, V{release}\0".encode())
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


# --- torch and its companions


def test_torch_replaced_by_a_cpu_build(patient: Patient) -> None:
    files = torch_files(patient.folder / "cpu", cuda=None)
    patient.install("torch", "2.9.1+cpu", files)
    finding = first(patient.examine())
    assert finding.code == "torch-is-cpu-build"
    assert finding.evidence["gpus"] == ["NVIDIA H200"]
    assert "unused-nvidia-libraries" in consequences(finding)
    assert finding.fix_verified_by_rules
    assert "2.9.1" in str(finding.fix)


def test_cpu_metadata_over_files_of_a_cuda_build(patient: Patient) -> None:
    (info,) = patient.site.glob("torch-*.dist-info")
    metadata = info / "METADATA"
    metadata.write_text(metadata.read_text().replace("2.9.1+cu128", "2.9.1+cpu"))
    info.rename(info.with_name("torch-2.9.1+cpu.dist-info"))
    assert first(patient.examine()).code == "torch-is-cpu-build"


def test_the_pin_that_brought_the_cpu_build_is_named(patient: Patient) -> None:
    patient.install("torch", "2.9.0+cpu", torch_files(patient.folder / "cpu", cuda=None))
    patient.install("xformers", "0.0.33", requires=["torch==2.9.0"])
    finding = first(patient.examine())
    assert finding.code == "torch-is-cpu-build"
    assert finding.evidence["replaced_by"] == ["xformers 0.0.33"]


def test_gpu_not_in_wheel(patient: Patient) -> None:
    patient.gpu("Tesla P100-PCIE-16GB", (6, 0), driver="550.163.01", cuda=12040)
    finding = first(patient.examine())
    assert finding.code == "gpu-not-in-wheel"
    assert finding.evidence["architectures"] == ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
    assert "2.9.1+cu126" in str(finding.fix)
    assert finding.fix_verified_by_rules


def test_companion_of_another_torch(patient: Patient) -> None:
    patient.install("torchvision", "0.23.0+cu128")
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["companion"]) == ("companion-mismatch", "torchvision")


def test_companion_of_another_cuda(patient: Patient) -> None:
    patient.install("torchvision", "0.24.1+cu130")
    assert first(patient.examine()).code == "companion-cuda-mismatch"


def test_numpy_2_with_an_old_torch(patient: Patient) -> None:
    patient.install("torch", "2.2.0+cu121", torch_files(patient.folder / "old", cuda="12.1"), ["triton==3.5.1"])
    patient.uninstall("torchvision")
    assert first(patient.examine()).code == "numpy2-with-old-torch"


# --- the CUDA wheels


def test_missing_cuda_wheel(patient: Patient) -> None:
    patient.uninstall("nvidia-nccl-cu12")
    report = patient.examine()
    finding = first(report)
    assert finding.code == "missing-nvidia-dependency"
    assert finding.evidence["missing"] == ["nvidia-nccl-cu12==2.27.5"]
    assert consequences(finding) == {"undeclared-needed-library"}
    assert errors(report) == ["missing-nvidia-dependency"]


def test_files_of_a_cuda_wheel_are_gone(patient: Patient) -> None:
    (patient.site / "nvidia/cudnn/lib/libcudnn.so.9").unlink()
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["distribution"]) == ("missing-nvidia-dependency", "nvidia-cudnn-cu12")


def test_two_cuda_majors(patient: Patient) -> None:
    patient.install("nvidia-cublas", "13.0.2.14", {"nvidia/cu13/lib/libcublas.so.13": b"made"})
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["cuda"]) == ("cuda-majors-mixed", 13)


def test_another_projects_own_cuda_is_only_a_warning(patient: Patient) -> None:
    patient.install("nvidia-cublas", "13.0.2.14", {"nvidia/cu13/lib/libcublas.so.13": b"made"})
    patient.install("cupy-cuda13x", "14.0.0", requires=["nvidia-cublas"])
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("cuda-majors-mixed", "warning")


def test_two_distributions_own_one_file(patient: Patient) -> None:
    other = library(patient.folder / "other/libnccl.so.2", source="int other(void) { return 1; }\n").read_bytes()
    patient.install("nvidia-nccl-cu13", "2.29.7", {"nvidia/nccl/lib/libnccl.so.2": other})
    finding = first(patient.examine())
    assert finding.code == "files-clobbered"
    assert finding.evidence["files"] == ["nvidia/nccl/lib/libnccl.so.2"]
    assert "cuda-majors-mixed" in consequences(finding)


def test_equal_files_of_two_distributions_are_no_fault(patient: Patient) -> None:
    patient.install("nvidia-cusparselt-cu12", "0.7.1", {"nvidia/__init__.py": b""})
    assert errors(patient.examine()) == []


def test_nccl_off_its_pin(patient: Patient) -> None:
    content = (patient.site / "nvidia/nccl/lib/libnccl.so.2").read_bytes()
    patient.install("nvidia-nccl-cu12", "2.21.5", {"nvidia/nccl/lib/libnccl.so.2": content})
    finding = first(patient.examine())
    assert finding.code == "nccl-off-pin"
    assert finding.fix == "install nvidia-nccl-cu12==2.27.5"
    assert "nccl-known-bad" in consequences(finding)


def test_known_bad_nccl_between_several_gpus(patient: Patient) -> None:
    content = (patient.site / "nvidia/nccl/lib/libnccl.so.2").read_bytes()
    patient.install("nvidia-nccl-cu12", "2.27.3", {"nvidia/nccl/lib/libnccl.so.2": content})
    metadata = next(patient.site.glob("torch-2*.dist-info")) / "METADATA"
    metadata.write_text(metadata.read_text().replace("nccl-cu12==2.27.5", "nccl-cu12==2.27.3"))
    patient.gpus([("NVIDIA H200", (9, 0)), ("NVIDIA H200", (9, 0))])
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("nccl-known-bad", "warning")
    assert finding.evidence["references"]


# --- the loader


def test_ld_library_path_puts_another_cudnn_first(patient: Patient) -> None:
    library(patient.root / "opt/cudnn/lib/libcudnn.so.9.23.1", soname="libcudnn.so.9")
    (patient.root / "opt/cudnn/lib/libcudnn.so.9").symlink_to("libcudnn.so.9.23.1")
    patient.variables["LD_LIBRARY_PATH"] = "/opt/cudnn/lib"
    finding = first(patient.examine())
    assert finding.code == "cudnn-mixed"
    assert (finding.evidence["version"], finding.evidence["expected_version"]) == ("9.23.1", "9.10.2.21")
    assert "LD_LIBRARY_PATH" in str(finding.fix)


def test_ld_library_path_puts_an_older_nvjitlink_first(patient: Patient) -> None:
    library(patient.root / "usr/local/cuda-12.1/lib64/libnvJitLink.so.12.1.105", soname="libnvJitLink.so.12")
    (patient.root / "usr/local/cuda-12.1/lib64/libnvJitLink.so.12").symlink_to("libnvJitLink.so.12.1.105")
    patient.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda-12.1/lib64:"
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("library-shadowed", "error")
    assert finding.evidence["library"] == "libnvJitLink.so.12"


def test_preloaded_nccl(patient: Patient) -> None:
    library(patient.root / "opt/libnccl.so.2.19.3", soname="libnccl.so.2")
    patient.variables["LD_PRELOAD"] = "/opt/libnccl.so.2.19.3"
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["how"]) == ("nccl-off-pin", "LD_PRELOAD")


def test_stub_of_libcuda(patient: Patient) -> None:
    library(patient.root / "usr/local/cuda/lib64/stubs/libcuda.so.1")
    patient.variables["LD_LIBRARY_PATH"] = "/usr/local/cuda/lib64/stubs"
    finding = first(patient.examine())
    assert finding.code == "libcuda-stub-loaded"
    assert str(finding.evidence["path"]).endswith("stubs/libcuda.so.1")


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "LD_LIBRARY_PATH"])
def test_another_libcuda_before_the_drivers(patient: Patient, variable: str) -> None:
    library(patient.root / "opt/old/libcuda.so.535.54.03", soname="libcuda.so.1")
    (patient.root / "opt/old/libcuda.so.1").symlink_to("libcuda.so.535.54.03")
    patient.variables[variable] = "/opt/old/libcuda.so.1" if variable == "LD_PRELOAD" else "/opt/old"
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("libcuda-shadowed", "error")
    assert finding.evidence["how"] == variable
    assert variable in str(finding.fix)


def test_no_libcuda_at_all(patient: Patient) -> None:
    for path in (patient.root / "usr/lib64").glob("libcuda*"):
        path.unlink()
    assert first(patient.examine()).code == "libcuda-not-found"


# --- triton


def test_triton_off_its_pin(patient: Patient) -> None:
    replace_triton(patient, "3.4.0", "12.8.93")
    finding = first(patient.examine())
    assert finding.code == "triton-off-pin"
    assert finding.fix == "install triton==3.5.1, which torch requires"
    assert finding.fix_verified_by_rules


def test_triton_missing(patient: Patient) -> None:
    patient.uninstall("triton")
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["required"]) == ("triton-missing", "triton==3.5.1")


def test_triton_twice(patient: Patient) -> None:
    files = {"triton/__init__.py": b"# another\n", "triton/backends/nvidia/bin/ptxas": b"\0other\0"}
    patient.install("pytorch-triton", "3.5.0", files)
    finding = first(patient.examine())
    assert finding.code == "triton-two-distributions"
    assert "files-clobbered" in consequences(finding)


def test_triton_whose_files_another_removal_took(patient: Patient) -> None:
    patient.install("pytorch-triton", "3.5.0", {"triton/__init__.py": b"# another\n"})
    patient.uninstall("pytorch-triton")
    finding = first(patient.examine())
    assert finding.code == "files-clobbered"
    assert "triton/__init__.py" in finding.evidence["files"]


def test_assembler_that_does_not_know_the_gpu(patient: Patient) -> None:
    patient.gpu("NVIDIA GB10", (12, 1))
    report = patient.examine()
    finding = first(report)
    assert finding.code == "assembler-does-not-know-gpu"
    assert finding.evidence["wanted"] == "sm_121a"
    assert errors(report) == [finding.code]
    assert finding.fix_verified_by_rules


def test_assembler_newer_than_the_driver(patient: Patient) -> None:
    replace_triton(patient, "3.7.1", "12.8.93", "13.1.80")
    metadata = next(patient.site.glob("torch-2*.dist-info")) / "METADATA"
    metadata.write_text(metadata.read_text().replace("triton==3.5.1", "triton==3.7.1"))
    patient.gpu("NVIDIA GeForce RTX 5090", (12, 0), driver="570.124.06", cuda=12080)
    assert first(patient.examine()).code == "assembler-newer-than-driver"


def test_an_old_assembler_named_by_a_variable(patient: Patient) -> None:
    patient.gpu("NVIDIA GeForce RTX 5090", (12, 0))
    patient.variables["TRITON_PTXAS_PATH"] = str(assembler(patient.folder / "cuda-12.1/bin/ptxas", "12.1.105"))
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("assembler-overridden", "error")
    assert finding.evidence["consequences"] == ["assembler-does-not-know-gpu"]
    assert str(finding.fix).startswith("unset TRITON_PTXAS_PATH")


def test_a_harmless_assembler_named_by_a_variable(patient: Patient) -> None:
    patient.variables["TRITON_PTXAS_PATH"] = str(assembler(patient.folder / "cuda/bin/ptxas", "12.9.86"))
    report = patient.examine()
    assert (first(report).code, first(report).severity) == ("assembler-overridden", "warning")


def test_an_assembler_that_helps_is_only_noted(patient: Patient) -> None:
    patient.gpu("NVIDIA GB10", (12, 1))
    patient.variables["TRITON_PTXAS_PATH"] = str(assembler(patient.folder / "cuda/bin/ptxas", "13.0.88"))
    assert errors(patient.examine()) == []


def test_an_assembler_that_is_not_there(patient: Patient) -> None:
    patient.variables["TRITON_PTXAS_PATH"] = "/nowhere/ptxas"
    assert (first(patient.examine()).code, errors(patient.examine())) == (
        "assembler-overridden",
        ["assembler-overridden"],
    )


def test_no_compiler(patient: Patient) -> None:
    (patient.tools / "gcc").unlink()
    assert first(patient.examine()).code == "host-compiler-missing"


def test_compiler_named_by_cc_is_not_there(patient: Patient) -> None:
    patient.variables["CC"] = "/opt/gone/gcc -m64"
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["CC"]) == ("host-compiler-missing", "/opt/gone/gcc -m64")


def test_no_python_headers(patient: Patient) -> None:
    # A Python without headers: one whose sysconfig names a folder that is not there.
    (patient.site / "without_headers.pth").write_text(
        "import sysconfig; sysconfig.get_path = lambda name, *a, _real=sysconfig.get_path, **k:"
        " '/nowhere' if name == 'include' else _real(name, *a, **k)\n"
    )
    assert first(patient.examine()).code == "python-headers-missing"


def test_cache_that_cannot_be_written(patient: Patient) -> None:
    (patient.folder / "file").write_text("")
    patient.variables["TRITON_CACHE_DIR"] = str(patient.folder / "file/cache")
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["path"]) == ("triton-cache-unwritable", str(patient.folder / "file/cache"))


def _cut_short(folder: Path) -> None:
    (folder / "cuda_utils.cpython-312-x86_64-linux-gnu.so").write_bytes(b"")


def _moved(folder: Path) -> None:
    (folder / "__grp__kernel.json").write_text('{"child_paths": {"kernel.cubin": "/gone/kernel.cubin"}}')


def _newer_glibc(folder: Path) -> None:
    future = library(folder / "libfuture.so", source="int f(void) { return 0; }", version_script="GLIBC_2.99 { f; };")
    library(folder / "launcher.so", needs=[future], source="int f(void); int g(void) { return f(); }")


@pytest.mark.parametrize("spoil", [_cut_short, _moved, _newer_glibc])
def test_stale_cache(patient: Patient, spoil: Callable[[Path], None]) -> None:
    folder = patient.folder / ".triton/cache/ABC"
    folder.mkdir(parents=True)
    spoil(folder)
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("triton-cache-stale", "warning")


# --- extensions


def test_extension_built_for_another_torch(patient: Patient) -> None:
    symbol = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
    source = f"void {symbol}(void); void _ZN3c104initEv(void); void f(void) {{ {symbol}(); _ZN3c104initEv(); }}\n"
    patient.extension("flash-attn", "2.8.3+cu12torch2.8cxx11abifalse", source=source)
    report = patient.examine()
    finding = first(report)
    assert finding.code == "extension-abi-mismatch"
    assert finding.evidence["symbols"] == [symbol]
    assert finding.evidence["built_for"] == "2.8"
    assert "extension-build-differs" in consequences(finding)


def test_extension_of_a_neighbouring_torch_that_finds_its_symbols(patient: Patient) -> None:
    source = "void _ZN3c104initEv(void); void f(void) { _ZN3c104initEv(); }\n"
    patient.extension("flash-attn", "2.8.3+cu12torch2.8", source=source)
    report = patient.examine()
    assert errors(report) == []
    assert [one.code for one in report.findings if one.severity == "info"].count("extension-build-differs") == 1


def test_extension_of_another_cuda_major(patient: Patient) -> None:
    runtime = library(patient.folder / "cudart/libcudart.so.13")
    patient.extension("torch-scatter", "2.1.2", needs=[runtime])
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["needs"]) == ("extension-cuda-major-mismatch", 13)
    assert consequences(finding) == {"undeclared-needed-library"}


def test_extension_without_code_for_the_gpu(patient: Patient) -> None:
    patient.extension("xformers", "0.0.33.post2", source=fatbin(("code", 80), ("code", 86), ("code", 120)))
    finding = first(patient.examine())
    assert finding.code == "extension-lacks-gpu"
    assert finding.evidence["holds"] == ["sm_80", "sm_86", "sm_120"]


def test_extension_whose_ptx_the_driver_does_not_read(patient: Patient) -> None:
    patient.gpu("NVIDIA H100 PCIe", (9, 0), driver="550.144.03", cuda=12040)
    patient.extension("made-kernels", "1.0", source=fatbin(("ptx", 80)))
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["ptx_isa"]) == ("ptx-newer-than-driver", "9.0")


def test_extension_with_ptx_that_the_driver_reads(patient: Patient) -> None:
    patient.extension("made-kernels", "1.0", source=fatbin(("ptx", 80)))
    assert errors(patient.examine()) == []


def test_flash_attention_below_its_minimum(patient: Patient) -> None:
    patient.gpu("Quadro RTX 5000", (7, 5))
    patient.extension("flash-attn", "2.8.3")
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["minimum"]) == ("extension-lacks-gpu", "8.0")


def test_extension_for_a_newer_glibc(patient: Patient) -> None:
    future = library(
        patient.folder / "f/libc.so.9", source="int f(void) { return 0; }", version_script="GLIBC_2.99 { f; };"
    )
    (patient.root / "usr/lib64/libc.so.9").write_bytes(future.read_bytes())
    patient.extension("torchao", "0.15.0", needs=[future], source="int f(void); int g(void) { return f(); }")
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["needs"]) == ("extension-glibc-too-new", "2.99")


def test_extension_that_needs_a_library_that_nothing_provides(patient: Patient) -> None:
    gone = library(patient.folder / "f/libnvpl_lapack_lp64_gomp.so.0")
    patient.extension("made-kernels", "1.0", needs=[gone])
    finding = first(patient.examine())
    assert finding.code == "undeclared-needed-library"
    assert finding.evidence["libraries"] == ["libnvpl_lapack_lp64_gomp.so.0"]


def test_bitsandbytes_without_torchs_cuda(patient: Patient) -> None:
    files = {f"bitsandbytes/libbitsandbytes_cuda{number}.so": b"made" for number in (118, 126)}
    patient.install("bitsandbytes", "0.48.0", files)
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["holds"]) == ("bitsandbytes-no-binary", ["118", "126"])


def test_toolkit_of_another_major_where_something_is_built(patient: Patient) -> None:
    home = patient.folder / "cuda-11.8"
    home.mkdir()
    (home / "version.json").write_text('{"cuda": {"name": "CUDA SDK", "version": "11.8.20221003"}}')
    patient.variables["CUDA_HOME"] = str(home)
    report = patient.examine()
    assert [(one.code, one.severity) for one in report.findings] == [("toolkit-mismatch", "info")]
    patient.install("deepspeed", "0.18.0")
    assert (first(patient.examine()).code, first(patient.examine()).severity) == ("toolkit-mismatch", "warning")


def test_packages_of_the_users_own_folder(patient: Patient) -> None:
    folder = patient.folder / "user"
    folder.mkdir()
    filename, content = make_wheel("torchaudio", "2.9.1+cu128")
    wheel = patient.folder / filename
    wheel.write_bytes(content)
    import zipfile

    zipfile.ZipFile(wheel).extractall(folder)
    patient.variables["PYTHONPATH"] = str(folder)
    (patient.site / "user.pth").write_text(
        f"import site; site.ENABLE_USER_SITE = True; site.getusersitepackages = lambda: {str(folder)!r}\n"
    )
    finding = first(patient.examine())
    assert (finding.code, finding.evidence["distributions"]) == ("user-site-shadows-environment", ["torchaudio"])


def test_torchao_goes_on_without_its_compiled_parts(patient: Patient) -> None:
    runtime = library(patient.folder / "cudart/libcudart.so.13")
    (patient.root / "usr/lib64/libcudart.so.13").write_bytes(runtime.read_bytes())
    patient.extension("torchao", "0.15.0", needs=[runtime])
    finding = first(patient.examine())
    assert (finding.code, finding.severity) == ("extension-cuda-major-mismatch", "warning")

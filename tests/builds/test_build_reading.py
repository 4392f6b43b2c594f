from __future__ import annotations

import pytest
from packaging.version import Version

from cudalock import facts
from cudalock.builds.assembler import triton_release
from cudalock.builds.model import Build
from cudalock.builds.reading import read_build
from cudalock.errors import AnswerIsNo
from cudalock.versions import CudaVersion
from support.torch_wheels import MemoryReader, index_file, metadata_of, torch_wheel, triton_wheel

REQUIRES = [
    'nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux" and platform_machine == "x86_64"',
    'triton==3.5.1; platform_system == "Linux" and platform_machine == "x86_64"',
]
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.3"}


def read(
    version: str, code: str | None, *, requires: list[str], index: str = "main", label: str | None = None, root: bool = False,
    platform: str = "manylinux_2_28_x86_64", require_wheel: bool = False,
) -> tuple[Build, list[str]]:  # fmt: skip
    filename, content = torch_wheel(version, code, requires=requires, platform=platform)
    reader = MemoryReader({filename: content})
    build = read_build(
        index_file(filename, index=index, label=label, root=root),
        metadata_of(version, requires),
        reader,
        os="linux",
        machine="x86_64",
        environment=PYTHON,
        require_wheel=require_wheel,
    )
    return build, reader.opened


def test_the_table_saves_reading() -> None:
    build, opened = read("2.9.1", "sm_90 sm_100", requires=REQUIRES)
    row = facts.torch_row(Version("2.9.1"), cuda=CudaVersion(12, 8), os="linux", machine="x86_64", on_main=True)
    assert row is not None
    assert opened == []
    assert (build.architectures, build.evidence, build.origin) == (row.architectures, row.evidence, row.source)
    assert (str(build.triton).partition(";")[0], build.source, build.label) == ("triton==3.5.1", "main", None)


def test_the_wheel_is_the_truth_where_it_is_asked() -> None:
    build, opened = read("2.9.1", "sm_90 sm_100", requires=REQUIRES, require_wheel=True)
    assert opened == ["torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl"]
    assert [str(one) for one in build.architectures] == ["sm_90", "sm_100"]
    assert (build.evidence, build.origin) == ("wheel", opened[0])


def test_an_unknown_release_is_read() -> None:
    requires = ['cuda-toolkit[cudart]==14.1.0; platform_system == "Linux"']
    build, opened = read("9.0.0", "sm_90 sm_100 compute_120", requires=requires)
    assert len(opened) == 1
    assert (str(build.cuda), build.evidence, build.triton) == ("14.1", "wheel", None)
    assert [str(one) for one in build.architectures] == ["sm_90", "sm_100", "compute_120"]


def test_an_unknown_build_of_a_known_release_is_read() -> None:
    build, opened = read("2.9.1+cu131", "sm_90 sm_120", requires=[], index="pytorch", label="cu131")
    assert len(opened) == 1
    assert (str(build.version), str(build.cuda), build.source, build.label) == (
        "2.9.1+cu131",
        "13.1",
        "pytorch",
        "cu131",
    )


def test_rows_of_the_main_index_do_not_speak_for_a_label() -> None:
    build, opened = read("2.9.1+cu126", "sm_90 sm_120", requires=[], index="pytorch", label="cu126")
    assert opened == []
    assert "sm_50" in map(str, build.architectures)


@pytest.mark.parametrize("platform", ["manylinux_2_28_aarch64", "win_amd64"])
def test_cpu_builds_need_no_reading(platform: str) -> None:
    build, opened = read("2.9.1", None, requires=REQUIRES, platform=platform)
    assert (build.is_cpu, build.architectures, opened) == (True, (), [])
    assert (build.os, build.machine) == (("windows", "x86_64") if platform == "win_amd64" else ("linux", "aarch64"))
    assert build.triton is None


def test_files_of_the_root_are_not_of_the_page_that_lists_them() -> None:
    assert read("2.0.0", None, requires=[], index="pytorch", label="cu118", root=True)[0].is_cpu


def test_a_cuda_build_that_names_nothing_is_refused() -> None:
    with pytest.raises(AnswerIsNo) as caught:
        read("9.0.0+cu131", None, requires=[], index="pytorch", label="cu131")
    assert caught.value.code == "architectures-not-found"


def test_triton_from_the_table() -> None:
    release = triton_release(Version("3.6.0"))
    assert (str(release.ptxas), str(release.ptxas_blackwell), release.blackwell_from) == ("12.8", "12.9", 100)
    assert release.evidence == "table"


@pytest.mark.parametrize(
    ("blackwell", "selection", "expected"),
    [
        ("13.9.11", "return knobs.nvidia.ptxas_blackwell if arch >= 80 else knobs.nvidia.ptxas", 80),
        ("13.9.11", "if arch >= 100: name = 'ptxas-blackwell'", 100),
        ("13.9.11", "", 90),  # as in the newest release that the table knows
        (None, "", None),
    ],
)
def test_an_unknown_triton_is_read(blackwell: str | None, selection: str, expected: int | None) -> None:
    filename, content = triton_wheel("9.0.0", "13.1.80", blackwell, selection=selection)
    release = triton_release(Version("9.0.0"), file=index_file(filename), reader=MemoryReader({filename: content}))
    assert (str(release.ptxas), release.blackwell_from, release.evidence) == ("13.1", expected, "wheel")
    assert (str(release.ptxas_blackwell) if release.ptxas_blackwell else None) == ("13.9" if blackwell else None)
    assert release.origin == filename


def test_an_unknown_triton_without_a_wheel() -> None:
    with pytest.raises(AnswerIsNo) as caught:
        triton_release(Version("9.0.0"))
    assert (caught.value.code, caught.value.hint is not None) == ("triton-release-unknown", True)
    filename, content = torch_wheel("9.0.0", "sm_90 sm_100")
    with pytest.raises(AnswerIsNo):
        triton_release(Version("9.0.0"), file=index_file(filename), reader=MemoryReader({filename: content}))

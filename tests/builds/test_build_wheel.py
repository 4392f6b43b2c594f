from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalock.builds import archive as archive_module
from cudalock.builds.archive import Archive
from cudalock.builds.wheel import architectures_in, scan
from cudalock.errors import AnswerIsNo
from support.torch_wheels import noise, torch_library, torch_wheel
from support.wheels import make_wheel


def texts(data: bytes) -> list[str]:
    return [str(architecture) for architecture in architectures_in(io.BytesIO(data))]


def test_out_of_a_wheel() -> None:
    data = torch_wheel("2.9.1", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120")[1]
    assert texts(data) == ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


def test_ptx_and_suffixes_sorted_with_machine_code_first() -> None:
    data = torch_wheel("2.9.1", "sm_120 compute_120 sm_90a sm_90 compute_90 sm_100f")[1]
    assert texts(data) == ["sm_90", "sm_90a", "sm_100f", "sm_120", "compute_90", "compute_120"]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("name", ["torch/lib/libtorch_python.so", "torch/lib/torch_python.dll"])
def test_stored_members_and_windows(stored: bool, name: str) -> None:
    assert texts(torch_wheel("2.9.1", "sm_80 sm_90", stored=stored, name_of_library=name)[1]) == ["sm_80", "sm_90"]


@pytest.mark.parametrize("at", [100, 2**20 - 5, 2**20, 2**20 - 4096, 256 * 1024 - 3, 3 * 2**20 + 17])
def test_wherever_the_text_lies(at: int) -> None:
    library = torch_library("sm_75 sm_80 sm_86 sm_90", at=at, size=at + 5000)
    assert texts(torch_wheel("2.9.1", None, library=library)[1]) == ["sm_75", "sm_80", "sm_86", "sm_90"]
    assert texts(library) == ["sm_75", "sm_80", "sm_86", "sm_90"]


@given(st.integers(0, 60), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_however_the_pieces_are_cut(start: int, length: int) -> None:
    data = bytes(start) + b"\0sm_75 sm_80 sm_86 compute_90\0" + bytes(40)
    pieces = [data[index : index + length] for index in range(0, len(data), length)]
    assert [str(one) for one in scan(pieces)] == ["sm_75", "sm_80", "sm_86", "compute_90"]


def test_another_text_may_run_into_it() -> None:
    """As the linker left it in torch 2.9.1."""
    library = torch_library("sm_70 sm_75 sm_80", before=b"from_ipc_handle(Device device, std::string ipc_h")
    assert texts(library) == ["sm_70", "sm_75", "sm_80"]


def test_lookalikes_are_not_believed() -> None:
    library = b"\x7fELF" + noise(100) + b"\0needs sm_80 or sm_90 at least\0sm_70 sm_75,\0" + noise(100)
    assert texts(library) == []
    assert texts(library + b"\0sm_90 sm_100\0") == ["sm_90", "sm_100"]


def test_a_build_for_one_gpu() -> None:
    assert texts(torch_library("sm_90")) == ["sm_90"]
    assert texts(torch_library("sm_90") + b"\0sm_80\0") == []  # two candidates: neither is believed


def test_a_cpu_build_has_none() -> None:
    assert texts(torch_wheel("2.9.1+cpu", None)[1]) == []


def test_nothing_behind_the_text_is_read() -> None:
    library = torch_library("sm_75 sm_80", at=100_000, size=8_000_000)
    data = torch_wheel("2.9.1", None, library=library)[1]

    class Counting(io.BytesIO):
        count = 0

        def read(self, size: int | None = -1) -> bytes:
            piece = super().read(size)
            Counting.count += len(piece)
            return piece

    assert architectures_in(Counting(data))
    assert Counting.count < 600_000


def test_a_file_on_disk(tmp_path: Path) -> None:
    library = tmp_path / "libtorch_python.so"
    library.write_bytes(torch_library("sm_80 sm_90"))
    with library.open("rb") as stream:
        assert [str(one) for one in architectures_in(stream)] == ["sm_80", "sm_90"]


def broken(data: bytes) -> str:
    with pytest.raises(AnswerIsNo) as caught:
        architectures_in(io.BytesIO(data))
    return caught.value.code


def test_damage_is_an_error_of_ours() -> None:
    data = torch_wheel("2.9.1", "sm_80 sm_90")[1]
    assert broken(b"") == "wheel-unreadable"
    assert broken(b"no wheel at all" * 10) == "wheel-unreadable"
    assert broken(data[:-10]) == "wheel-unreadable"
    assert broken(data[1000:]) == "wheel-unreadable"
    middle = data.index(b"torch/lib/libtorch_python.so") + 100
    assert broken(data[:middle] + bytes(50_000) + data[middle + 50_000 :]) == "wheel-unreadable"
    assert broken(make_wheel("demo", "1.0")[1]) == "architectures-not-found"


def test_a_member_that_is_not_where_the_directory_says() -> None:
    data = bytearray(torch_wheel("2.9.1", "sm_80 sm_90")[1])
    entry = data.rindex(b"torch/lib/libtorch_python.so") - 46
    assert data[entry : entry + 4] == b"PK\1\2"
    struct.pack_into("<I", data, entry + 42, 7)
    assert broken(bytes(data)) == "wheel-unreadable"


def test_encryption_and_odd_compression_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as made:
        made.writestr("torch/lib/libtorch_python.so", torch_library("sm_80 sm_90"))
    assert broken(buffer.getvalue()) == "wheel-unreadable"


def test_inflating_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "_LARGEST_MEMBER", 3 * 2**20)
    assert broken(torch_wheel("2.9.1", None, library=b"\x7fELF" + bytes(20 * 2**20))[1]) == "wheel-unreadable"


def test_small_members_whole() -> None:
    data = make_wheel("demo", "1.0", files={"demo/a.txt": b"abc" * 1000})[1]
    found = Archive(io.BytesIO(data))
    member = found.find("missing", "demo/a.txt")
    assert member is not None
    assert found.read(member) == b"abc" * 1000
    with pytest.raises(AnswerIsNo, match="larger than expected"):
        found.read(member, limit=100)
    assert found.find("missing") is None

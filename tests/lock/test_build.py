"""From a resolution to a lock: complete, deterministic, without secrets, and giving the resolution back."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalock.compat.model import Mode, Policy
from cudalock.errors import InternalError
from cudalock.index.model import CoreMetadata, IndexFile, PageRef, ProjectPage
from cudalock.lock import build_lock, complete_hashes, dump_lock
from cudalock.lock.file import parse_text
from cudalock.requirements.model import Request
from cudalock.resolve.model import Pin, Resolution
from support.locks import a_lock, asked, linux_target, pin, request

H100 = linux_target("9.0")


def document(pins: list[Pin], wanted: Request | None = None, **options: Any) -> dict[str, Any]:
    resolution = Resolution(pins=tuple(pins))
    lock = build_lock(resolution, H100, wanted or request(), Policy(), **options)
    return tomllib.loads(dump_lock(lock))


def test_the_document_has_the_schema_of_the_design() -> None:
    lock = a_lock(
        H100, index_urls={"main": "https://index.example/simple/", "pytorch": "https://download.pytorch.org/whl"}
    )
    read = tomllib.loads(dump_lock(lock))
    assert read["lock-version"] == "1.0"
    assert read["created-by"] == "cudalock"
    assert read["requires-python"] == "==3.12.*"
    assert read["environments"] == [
        'sys_platform == "linux" and platform_machine == "x86_64" and implementation_name == "cpython"'
    ]
    assert [package["name"] for package in read["packages"]] == ["mpmath", "sympy", "torch", "triton"]
    torch = read["packages"][2]
    assert torch["version"] == "2.9.1+cu128"
    assert torch["index"] == "https://download.pytorch.org/whl/cu128"
    assert torch["dependencies"] == [{"name": "sympy"}, {"name": "triton"}]
    (wheel,) = torch["wheels"]
    assert wheel["name"] == "torch-2.9.1+cu128-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert wheel["url"].endswith("/torch-2.9.1%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl")
    assert list(wheel["hashes"]) == ["sha256"]
    assert wheel["size"] == 1000
    ours = read["tool"]["cudalock"]
    assert ours.pop("digest").startswith("sha256:")
    contract = ours.pop("contract")
    assert ours == {
        "schema": 1,
        "requirements": ["torch>=2.8"],
        "indexes": ["main", "pytorch"],
        "triple": {"torch": "2.9.1+cu128", "triton": "3.5.1", "cuda": "12.8"},
        "target": {
            "platform": "linux-x86_64",
            "libc": "glibc-2.28",
            "python": "3.12",
            "driver": "580.65.06",
            "gpus": ["9.0"],
        },
    }
    assert contract["driver-min"] == "525.60.13"
    assert contract["compat"] == "native"
    assert contract["architectures"] == ["7.5", "8.0", "8.6", "9.0", "10.0", "12.0"]
    assert contract["ptx"] == []
    assert contract["evidence"] == "wheel"
    assert contract["gpu"]["9.0"] == {"driver-min": "525.60.13", "triton": "ptxas 12.8"}


def test_the_order_of_what_comes_in_makes_no_difference() -> None:
    pins = [pin("b-1-py3-none-any.whl", requires=["a", "c"]), pin("a-1-py3-none-any.whl"), pin("c-1-py3-none-any.whl")]
    first = build_lock(Resolution(pins=tuple(pins)), H100, request("b", "a"), Policy())
    second = build_lock(Resolution(pins=tuple(reversed(pins))), H100, request("a", "b", "a"), Policy())
    assert dump_lock(first) == dump_lock(second)


def test_nothing_secret_is_written() -> None:
    wanted = request("demo", "direct @ https://me:secret@files.example/direct-1-py3-none-any.whl")
    text = dump_lock(
        build_lock(
            Resolution(
                pins=(
                    pin(
                        "demo-1-py3-none-any.whl",
                        url="https://me:secret@files.example/demo-1-py3-none-any.whl#sha256=0",
                    ),
                    pin("direct-1-py3-none-any.whl", url="https://me:secret@files.example/direct-1-py3-none-any.whl"),
                )
            ),
            H100,
            wanted,
            Policy(),
            index_urls={"main": "https://me:secret@index.example/simple"},
        )
    )
    assert "secret" not in text
    assert "me:" not in text
    assert "#sha256" not in text


def test_a_direct_address_becomes_an_archive_and_a_source_distribution_an_sdist() -> None:
    read = document(
        [pin("direct-1-py3-none-any.whl"), pin("flash_attn-2.8.tar.gz")],
        request("direct @ https://files.example/direct-1-py3-none-any.whl", "flash-attn"),
    )
    direct, flash = read["packages"]
    assert direct["archive"]["url"] == "https://files.example/direct-1-py3-none-any.whl"
    assert "wheels" not in direct
    assert "index" not in direct
    assert flash["name"] == "flash-attn"
    assert flash["sdist"]["name"] == "flash_attn-2.8.tar.gz"


def test_an_address_that_a_package_asks_for_is_an_archive_too() -> None:
    (package,) = document([pin("a-1-py3-none-any.whl", index="direct")])["packages"]
    assert package["archive"]["hashes"]


def test_all_inputs_are_recorded() -> None:
    wanted = Request(
        requirements=asked("Torch >= 2.8", origin="pyproject.toml"),
        constraints=asked("numpy<3"),
        extras=("vision",),
        groups=("test",),
        exclude_newer=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        allow_build=frozenset({cast("Any", "flash-attn")}),
    )
    policy = Policy(cuda="12.8", modes=frozenset(Mode), without_triton=True)
    lock = build_lock(Resolution(pins=(pin("torch-1-py3-none-any.whl"),)), H100, wanted, policy)
    assert lock.inputs == {
        "requirements": ("torch>=2.8",),
        "constraints": ("numpy<3",),
        "extras": ("vision",),
        "groups": ("test",),
        "allow-build": ("flash-attn",),
        "exclude-newer": "2026-01-02T03:04:05Z",
        "cuda": "12.8",
        "compat": "forward",
        "without-triton": True,
        "project": True,
    }


def test_old_forms_of_requires_python_are_left_out() -> None:
    read = document(
        [pin("a-1-py3-none-any.whl", requires_python=">=3.6.*"), pin("b-1-py3-none-any.whl", requires_python=">=3.6")]
    )
    assert "requires-python" not in read["packages"][0]
    assert read["packages"][1]["requires-python"] == ">=3.6"


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (pin("a-1-py3-none-any.whl", sha256=None), "lock-hash-missing"),
        (pin("a-1-cp311-cp311-manylinux_2_28_x86_64.whl"), "lock-self-check"),
        (pin("a-1-cp312-cp312-win_amd64.whl"), "lock-self-check"),
        (pin("a-1-py3-none-any.whl", requires_python=">=3.13"), "lock-self-check"),
        (replace(pin("a-1+cu128-py3-none-any.whl"), version=pin("a-1-py3-none-any.whl").version), "lock-self-check"),
    ],
)
def test_a_lock_that_would_not_install_is_never_made(broken: Pin, code: str) -> None:
    with pytest.raises(InternalError) as caught:
        document([broken])
    assert caught.value.code == code


def test_two_files_of_one_package_are_refused() -> None:
    with pytest.raises(InternalError, match="Multiple packages"):
        document([pin("a-1-py3-none-any.whl"), pin("a-2-py3-none-any.whl")])


class Hasher:
    """A reader that only knows how to work out a hash, as for an index that announces none."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sha256(self, file: IndexFile) -> str:
        self.asked.append(file.filename)
        return "ab" * 32

    def page(self, ref: PageRef) -> ProjectPage:
        raise NotImplementedError

    def metadata(self, file: IndexFile) -> CoreMetadata:
        raise NotImplementedError

    def open(self, file: IndexFile) -> BinaryIO:
        raise NotImplementedError

    def ahead(self, task: Callable[[], object]) -> None:
        """Drops it, as a reader may."""

    def prefetch(self, **_: Any) -> None:
        """Nothing."""


def test_hashes_are_worked_out_where_the_index_gives_none() -> None:
    reader = Hasher()
    resolution = Resolution(pins=(pin("a-1-py3-none-any.whl"), pin("b-1-py3-none-any.whl", sha256=None)))
    complete = complete_hashes(resolution, reader)
    assert reader.asked == ["b-1-py3-none-any.whl"]
    assert complete.pins[0] == resolution.pins[0]
    assert complete.pins[1].file.sha256 == "ab" * 32
    assert complete_hashes(complete, reader) is complete


NAMES = st.lists(st.from_regex(r"[a-z]([a-z0-9]{0,6}[a-z0-9])?", fullmatch=True), unique=True, min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(names=NAMES, data=st.data())
def test_what_is_written_reads_back_equal(names: list[str], data: st.DataObject) -> None:
    pins = []
    for name in names:
        version = data.draw(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}(\+cu1[0-9]{2})?", fullmatch=True))
        requires = data.draw(st.lists(st.sampled_from(names), max_size=3))
        pins.append(pin(f"{name}-{version}-py3-none-any.whl", requires=requires))
    lock = build_lock(Resolution(pins=tuple(pins)), H100, request(*names), Policy())
    text = dump_lock(lock)
    again = parse_text(text, "pylock.toml")
    assert again == lock
    assert again.digest_ok
    assert dump_lock(again) == text

from __future__ import annotations

import hashlib
import threading
import time
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version
from werkzeug.wrappers import Request

from cudalock.errors import TransportError, UsageError
from cudalock.index.model import PageRef
from support.clients import Recorder, client_of, main_page, only_file, pytorch_page
from support.fake_index import FakeIndex
from support.wheels import make_metadata, make_sdist


def failing(code: str) -> pytest.RaisesExc[TransportError]:
    return pytest.RaisesExc(TransportError, check=lambda error: error.code == code)


@pytest.mark.parametrize("json", [True, False])
def test_page_in_both_dialects(fake_index: FakeIndex, json: bool) -> None:
    fake_index.json = json
    fake_index.add_wheel("demo", "1.0", requires_python=">=3.9")
    with client_of(fake_index) as client:
        file = only_file(client, main_page("demo"))
        assert (file.filename, file.requires_python, file.size is not None) == (
            "demo-1.0-py3-none-any.whl",
            ">=3.9",
            json,
        )
        assert file.sha256 == hashlib.sha256(fake_index.files[0].content).hexdigest()
        assert client.answered == {"main"}


def test_unknown_projects_are_not_errors(fake_index: FakeIndex) -> None:
    with client_of(fake_index) as client:
        assert not client.page(main_page("nowhere")).found
        assert not client.page(pytorch_page("nowhere", "cu128")).found
        assert client.answered == {"main", "pytorch"}


def test_refusal_by_the_main_index_is_an_error(fake_index: FakeIndex) -> None:
    fake_index.misbehave("/simple/demo/", 403)
    with client_of(fake_index) as client, failing("index-http-error"):
        client.page(main_page("demo"))


def test_pages_of_the_pytorch_index(fake_index: FakeIndex) -> None:
    for label in ("cu128", "cu126"):
        fake_index.add_wheel("torch", f"2.9.0+{label}", label=label, platform="manylinux_2_28_x86_64")
    fake_index.add_wheel("torch", "2.0.0", label="", platform="linux_aarch64")
    fake_index.pytorch_host = "https://download-r2.pytorch.org"
    with client_of(fake_index) as client:
        names = [file.filename for file in client.page(pytorch_page("torch", "cu128")).files]
        assert names == [
            "torch-2.9.0+cu128-py3-none-manylinux_2_28_x86_64.whl", "torch-2.0.0-py3-none-linux_aarch64.whl",
        ]  # fmt: skip
        assert len(client.page(pytorch_page("torch", None)).files) == 3
        file = client.page(pytorch_page("torch", "cu128")).files[0]
        assert (
            file.url
            == "https://download-r2.pytorch.org/whl/cu128/torch-2.9.0%2Bcu128-py3-none-manylinux_2_28_x86_64.whl"
        )
        assert client.metadata(file).version == Version("2.9.0+cu128")


def test_same_name_with_other_bytes_on_another_page_is_another_file(fake_index: FakeIndex) -> None:
    for label, requirement in (("cpu", "numpy"), ("cu126", "nvidia-cublas")):
        fake_index.add_wheel("torchvision", "0.24.0", label=label, requires=[requirement])
    with client_of(fake_index) as client:
        files = [only_file(client, pytorch_page("torchvision", label)) for label in ("cpu", "cu126")]
        assert [str(client.metadata(file).requires[0]) for file in files] == ["numpy", "nvidia-cublas"]


def test_named_source(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0")
    with client_of(fake_index, main_url="https://main.example/", sources={"mine": fake_index.main_url}) as client:
        assert client.page(PageRef("mine", main_page("demo").project)).found
        assert client.answered == {"mine"}
        with pytest.raises(UsageError, match="no index is named"):
            client.page(PageRef("other", main_page("demo").project))


def test_page_is_fetched_once_whoever_asks(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0")
    fake_index.misbehave("/simple/demo/", lambda _request: time.sleep(0.1))
    with client_of(fake_index) as client:
        client.prefetch(pages=[main_page("demo")])
        threads = [threading.Thread(target=client.page, args=[main_page("demo")]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert fake_index.paths() == ["/simple/demo/"]


# -- metadata


@pytest.mark.parametrize(
    ("sidecar", "expected"),
    [
        ("present", ["demo-1.0-py3-none-any.whl.metadata"]),
        ("unhashed", ["demo-1.0-py3-none-any.whl.metadata"]),
        ("wrong-hash", ["demo-1.0-py3-none-any.whl.metadata", "demo-1.0-py3-none-any.whl"]),
        ("missing", ["demo-1.0-py3-none-any.whl.metadata", "demo-1.0-py3-none-any.whl"]),
        ("absent", ["demo-1.0-py3-none-any.whl"]),
    ],
)
def test_metadata_from_sidecar_else_from_the_wheel(fake_index: FakeIndex, sidecar: str, expected: list[str]) -> None:
    fake_index.add_wheel("demo", "1.0", sidecar=sidecar, requires=["torch>=2"])
    with client_of(fake_index) as client:
        found = client.metadata(only_file(client, main_page("demo")))
    assert [str(requirement) for requirement in found.requires] == ["torch>=2"]
    assert [path.rpartition("/")[2] for path in fake_index.paths(containing="/files/")] == expected


@pytest.mark.parametrize("ranges", ["all", "no-suffix", "none"])
@pytest.mark.parametrize("json", [True, False])
def test_metadata_of_a_large_wheel_by_ranges(fake_index: FakeIndex, ranges: str, json: bool) -> None:
    fake_index.json, fake_index.ranges = json, ranges  # type: ignore[assignment]
    filler = {"demo/data.bin": bytes(range(256)) * 20_000}
    fake_index.add_wheel("demo", "1.0", sidecar="absent", requires=["torch>=2"], files=filler, stored=True)
    with client_of(fake_index) as client:
        found = client.metadata(only_file(client, main_page("demo")))
    assert [str(requirement) for requirement in found.requires] == ["torch>=2"]
    sent = [request.sent for request in fake_index.requests if request.path.endswith(".whl")]
    if ranges == "all":
        assert len(sent) == 1
        assert sent[0] < 500_000
    else:
        assert len(sent) <= 4


def test_sidecar_that_speaks_of_another_file_is_dropped(fake_index: FakeIndex) -> None:
    other = make_metadata("other", "3.0", requires=["evil"])
    fake_index.add_wheel("demo", "1.0", sidecar_content=other, requires=["torch"])
    recorder = Recorder()
    with client_of(fake_index, reporter=recorder) as client:
        found = client.metadata(only_file(client, main_page("demo")))
    assert (found.name, [str(line) for line in found.requires]) == ("demo", ["torch"])
    assert "index-metadata-conflict" in {code for _, _, code in recorder.messages}


@pytest.mark.parametrize("overrides", [{"Name": "other"}, {"Version": "2.0"}, {"Version": "1.0+cu128"}])
def test_wheel_whose_metadata_speaks_of_another_is_an_error(fake_index: FakeIndex, overrides: dict[str, str]) -> None:
    fake_index.add_wheel("demo", "1.0+cu126", sidecar="absent", metadata_overrides=overrides)
    with client_of(fake_index) as client, failing("index-metadata-conflict"):
        client.metadata(only_file(client, main_page("demo")))


def test_local_version_in_the_file_name_alone_is_accepted(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0+cu126", metadata_overrides={"Version": "1.0"})
    with client_of(fake_index) as client:
        assert client.metadata(only_file(client, main_page("demo"))).version == Version("1.0")


def test_vendored_dist_info_is_not_the_wheels_own(fake_index: FakeIndex) -> None:
    files = {"vendored-9.dist-info/METADATA": make_metadata("vendored", "9"), "demo/__init__.py": b""}
    fake_index.add_wheel("demo", "1.0", sidecar="absent", files=files)
    with client_of(fake_index) as client:
        assert client.metadata(only_file(client, main_page("demo"))).name == "demo"


@pytest.mark.parametrize("content", [b"", b"not a zip file" * 1000, b"PK\x05\x06" + b"\xff" * 18])
def test_damaged_wheel_is_a_typed_error(fake_index: FakeIndex, content: bytes) -> None:
    fake_index.add("demo-1.0-py3-none-any.whl", content)
    with client_of(fake_index) as client, failing("index-invalid-wheel"):
        client.metadata(only_file(client, main_page("demo")))


def test_metadata_bomb_is_refused(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0", sidecar="absent", metadata=make_metadata("demo", "1.0") + b"x" * 40_000_000)
    assert len(fake_index.files[0].content) < 100_000
    with client_of(fake_index) as client, failing("index-invalid-wheel"):
        client.metadata(only_file(client, main_page("demo")))


def test_source_distribution(fake_index: FakeIndex) -> None:
    fake_index.add(*make_sdist("demo", "1.0", requires=["torch>=2"], dynamic=["Provides-Extra"]))
    with client_of(fake_index) as client:
        found = client.metadata(only_file(client, main_page("demo")))
    assert [str(line) for line in found.requires] == ["torch>=2"]
    assert found.dynamic == {"provides-extra"}


@pytest.mark.parametrize(
    ("project", "dynamic"),
    [
        (b'[project]\nname = "demo"\ndependencies = ["torch"]\n', False),
        (b'[project]\nname = "demo"\ndynamic = ["dependencies"]\n', True),
        (b"[build-system]\nrequires = []\n", True),
        (b"not toml", True),
    ],
)
def test_old_source_distribution_promises_what_pyproject_promises(
    fake_index: FakeIndex, project: bytes, dynamic: bool
) -> None:
    info = make_metadata("demo", "1.0", requires=["torch"])
    fake_index.add(*make_sdist("demo", "1.0", pkg_info=info, files={"pyproject.toml": project}))
    with client_of(fake_index) as client:
        assert ("requires-dist" in client.metadata(only_file(client, main_page("demo"))).dynamic) is dynamic


def test_damaged_source_distribution_is_a_typed_error(fake_index: FakeIndex) -> None:
    fake_index.add("demo-1.0.tar.gz", b"\x1f\x8b" + b"junk" * 50)
    with client_of(fake_index) as client, failing("index-invalid-sdist"):
        client.metadata(only_file(client, main_page("demo")))


# -- files


def test_open_reads_only_what_is_asked(fake_index: FakeIndex) -> None:
    needle = bytes(200_000) + b"sm_80 sm_90" + bytes(200_000)
    files = {
        "torch/a.bin": bytes(range(256)) * 40_000,
        "torch/lib/needle.so": needle,
        "torch/z.bin": bytes(range(256)) * 40_000,
    }
    fake_index.add_wheel("torch", "2.9.0", files=files, stored=True)
    with client_of(fake_index) as client:
        file = only_file(client, main_page("torch"))
        with client.open(file) as remote, zipfile.ZipFile(remote) as archive:
            with archive.open("torch/lib/needle.so") as stream:
                assert b"sm_80 sm_90" in stream.read(300_000)
            assert archive.read("torch-2.9.0.dist-info/METADATA").startswith(b"Metadata-Version")
    assert len(fake_index.paths(containing=".whl")) == 2


def test_sha256_announced_or_computed(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0")
    digest = hashlib.sha256(fake_index.files[0].content).hexdigest()
    recorder = Recorder()
    with client_of(fake_index, reporter=recorder) as client:
        assert client.sha256(only_file(client, main_page("demo"))) == digest
    assert fake_index.paths(containing=".whl") == []
    fake_index.hashes = False
    with client_of(fake_index, reporter=recorder) as client:
        file = only_file(client, main_page("demo"))
        assert file.sha256 is None
        assert client.sha256(file) == client.sha256(file) == digest
    assert fake_index.paths(containing=".whl") == ["/files/demo-1.0-py3-none-any.whl"]
    assert [(level, code) for level, _, code in recorder.messages if level == "note"] == [
        ("note", "index-hash-missing")
    ]


def test_two_pages_that_disagree_about_one_url(fake_index: FakeIndex) -> None:
    url = f"{fake_index.host}/whl/cu128/torch-2.9.0-py3-none-any.whl"
    pages = {"/whl/cu128/torch/": "a" * 64, "/whl/torch/": "b" * 64}
    from werkzeug.wrappers import Response

    for path, digest in pages.items():
        body = f'<h1>Links for torch</h1><a href="{url}#sha256={digest}">x</a>'
        fake_index.misbehave(path, lambda _request, body=body: Response(body, content_type="text/html"))  # type: ignore[misc]
    with client_of(fake_index) as client:
        file = only_file(client, pytorch_page("torch", "cu128"))
        assert client.sha256(file) == "a" * 64
        client.page(pytorch_page("torch", None))
        with failing("index-hash-conflict") as caught:
            client.sha256(file)
    assert "a" * 64 in caught.value.message
    assert "b" * 64 in caught.value.message


def test_download_lands_complete_and_checked(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.add_wheel("demo", "1.0")
    target = tmp_path / "wheels" / "demo.whl"
    with client_of(fake_index) as client:
        digest = client.download(only_file(client, main_page("demo")), target)
    assert target.read_bytes() == fake_index.files[0].content
    assert hashlib.sha256(target.read_bytes()).hexdigest() == digest


def test_download_that_is_not_what_was_announced_leaves_nothing(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.add_wheel("demo", "1.0", sha256="a" * 64)
    with client_of(fake_index) as client, failing("index-hash-conflict"):
        client.download(only_file(client, main_page("demo")), tmp_path / "demo.whl")
    assert list(tmp_path.iterdir()) == []


def test_download_to_where_nothing_can_be_written(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.add_wheel("demo", "1.0")
    (tmp_path / "file").write_text("")
    with client_of(fake_index) as client, pytest.raises(UsageError, match="cannot be written"):
        client.download(only_file(client, main_page("demo")), tmp_path / "file" / "demo.whl")


# -- background work


def test_prefetch_never_raises_and_its_error_is_told_to_who_asks(fake_index: FakeIndex) -> None:
    fake_index.misbehave("/simple/broken/", 418)
    with client_of(fake_index) as client:
        client.prefetch(pages=[main_page("broken"), PageRef("unknown", main_page("demo").project)])
        with failing("index-http-error"):
            client.page(main_page("broken"))


def test_closing_does_not_wait_for_a_stalled_prefetch(fake_index: FakeIndex) -> None:
    release = threading.Event()
    entered = threading.Event()

    def stall(_request: Request) -> None:
        entered.set()
        release.wait(20)

    fake_index.misbehave("/simple/demo/", stall)
    began = time.monotonic()
    with client_of(fake_index) as client:
        client.prefetch(pages=[main_page("demo")])
        assert entered.wait(5)
    release.set()
    assert time.monotonic() - began < 3


def test_every_request_is_told_with_size_and_time(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0")
    recorder = Recorder()
    with client_of(fake_index, reporter=recorder) as client:
        client.metadata(only_file(client, main_page("demo")))
        assert client.statistics.requests == len(fake_index.requests) == 2
        assert client.statistics.bytes == sum(request.sent for request in fake_index.requests)
    lines = recorder.texts("debug").splitlines()
    assert len(lines) == 2
    assert "GET https://index.example/simple/demo/: 200," in lines[0]


def test_a_task_ahead_runs_in_the_background_and_may_fail(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0")
    came = threading.Event()

    def task() -> None:
        client.page(main_page("demo"))
        came.set()
        raise TransportError("index-unreachable", "nobody hears of this")

    with client_of(fake_index) as client:
        client.ahead(task)
        assert came.wait(30)
        assert len(client.page(main_page("demo")).files) == 1


def test_nothing_is_asked_ahead_while_the_cache_has_all_answers(fake_index: FakeIndex, tmp_path: Path) -> None:
    fake_index.cache_control = "max-age=600"
    fake_index.add_wheel("demo", "1.0")
    fake_index.add_wheel("other", "1.0")
    with client_of(fake_index, cache_dir=tmp_path) as client:
        client.page(main_page("demo"))
    with client_of(fake_index, cache_dir=tmp_path) as client:
        client.prefetch(pages=[main_page("other")])
        client.ahead(lambda: client.page(main_page("other")))
        client.page(main_page("demo"))
        assert client.statistics.requests == 0
        assert client.page(main_page("other")).found  # now the network is in use anyway
        assert client.statistics.requests == 1


def test_what_waited_is_asked_for_with_the_first_answer_that_the_cache_has_not(
    fake_index: FakeIndex, tmp_path: Path
) -> None:
    fake_index.cache_control = "no-cache"  # kept, and to be asked for anew each time
    for name in ("demo", "other", "third"):
        fake_index.add_wheel(name, "1.0")
    with client_of(fake_index, cache_dir=tmp_path) as client:
        client.page(main_page("demo"))
    fake_index.requests.clear()
    came = threading.Event()

    def third() -> None:
        client.page(main_page("third"))
        came.set()

    with client_of(fake_index, cache_dir=tmp_path) as client:
        client.prefetch(pages=[main_page("other")])
        client.ahead(third)
        assert fake_index.requests == []
        client.page(main_page("demo"))
        assert came.wait(30)
        assert client.page(main_page("other")).found
        assert len(fake_index.requests) == 3

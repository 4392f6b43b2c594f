from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mousebender import simple as oracle
from packaging.utils import canonicalize_name

from cudalock.errors import TransportError
from cudalock.index.model import IndexFile, PageRef, ProjectPage
from cudalock.index.simple import parse_page, shown_url, without_credentials
from support.errors import code_of
from support.fake_index import FakeIndex

SHA = "a" * 64
OTHER = "b" * 64
DEMO = PageRef("main", canonicalize_name("demo"))
TORCH = PageRef("pytorch", canonicalize_name("torch"), "cu128")
BASE = "https://index.example/simple/demo/"


def page_of(files: list[dict[str, object]], **more: object) -> ProjectPage:
    body = json.dumps({"meta": {"api-version": "1.1"}, "name": "demo", "files": files, **more}).encode()
    return parse_page(body, "application/vnd.pypi.simple.v1+json", BASE, DEMO)


def html(body: str, ref: PageRef = DEMO, base: str = BASE) -> ProjectPage:
    return parse_page(f"<h1>Links for x</h1>{body}".encode(), "text/html; charset=utf-8", base, ref)


def one(page: ProjectPage) -> IndexFile:
    assert len(page.files) == 1
    return page.files[0]


def entry(**changes: object) -> dict[str, object]:
    return {"filename": "demo-1.0-py3-none-any.whl", "url": "/files/demo-1.0-py3-none-any.whl", "hashes": {}} | changes


def test_json_file_with_everything() -> None:
    file = one(
        page_of([
            entry(
                **{
                    "hashes": {"sha256": SHA.upper()}, "requires-python": ">=3.9", "size": 12, "yanked": "broken",
                    "upload-time": "2026-01-02T03:04:05.678Z", "core-metadata": {"sha256": OTHER},
                }
            )
        ])
    )  # fmt: skip
    assert file == IndexFile(
        page=DEMO,
        url="https://index.example/files/demo-1.0-py3-none-any.whl",
        filename="demo-1.0-py3-none-any.whl",
        hashes={"sha256": SHA},
        requires_python=">=3.9",
        yanked="broken",
        size=12,
        upload_time=datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
        metadata={"sha256": OTHER},
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"core-metadata": True}, {}),
        ({"core-metadata": False, "dist-info-metadata": {"sha256": SHA}}, None),
        ({"dist-info-metadata": {"sha256": SHA}}, {"sha256": SHA}),
        ({"data-dist-info-metadata": {"sha256": SHA}}, {"sha256": SHA}),
        ({"core-metadata": {"sha256": "short"}}, {}),
        ({}, None),
    ],
)
def test_json_sidecar(changes: dict[str, object], expected: dict[str, str] | None) -> None:
    assert one(page_of([entry(**changes)])).metadata == expected


@pytest.mark.parametrize(
    ("changes", "attribute", "expected"),
    [
        ({"hashes": {"sha256": "zz" * 32}}, "hashes", {}),
        ({"hashes": {"sha256": SHA[:-1]}}, "hashes", {}),
        ({"hashes": "sha256"}, "hashes", {}),
        ({"size": -1}, "size", None),
        ({"size": True}, "size", None),
        ({"size": "12"}, "size", None),
        ({"upload-time": "yesterday"}, "upload_time", None),
        ({"upload-time": 5}, "upload_time", None),
        ({"size": 2**63}, "size", None),
        ({"size": 2**63 - 1}, "size", 2**63 - 1),
        ({"upload-time": "9999-12-31T23:59:59Z"}, "upload_time", None),
        ({"upload-time": "9999-12-31T23:59:59-12:00"}, "upload_time", None),
        ({"upload-time": "9998-12-31T23:59:59-12:00"}, "upload_time", None),
        ({"upload-time": "0001-01-01T00:00:00+12:00"}, "upload_time", None),
        ({"upload-time": "2026-01-02T03:04:05.123456789Z"}, "upload_time",
         datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ({"upload-time": "2026-01-02T03:04:05+00:00:05.5"}, "upload_time",
         datetime(2026, 1, 2, 3, 3, 59, 500000, tzinfo=UTC)),
        ({"upload-time": "2026-01-02T03:04:05"}, "upload_time", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ({"yanked": ""}, "yanked", True),
        ({"yanked": None}, "yanked", False),
        ({"requires-python": 3}, "requires_python", None),
        ({"url": "https://user:secret@files.example/demo-1.0-py3-none-any.whl#sha256=0"}, "url",
         "https://files.example/demo-1.0-py3-none-any.whl"),
        ({"url": "../../x/../demo-1.0-py3-none-any.whl"}, "url", "https://index.example/demo-1.0-py3-none-any.whl"),
    ],
)  # fmt: skip
def test_json_field_that_is_wrong_is_blanked(changes: dict[str, object], attribute: str, expected: object) -> None:
    assert getattr(one(page_of([entry(**changes)])), attribute) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"filename": "other-1.0-py3-none-any.whl"},
        {"filename": "demo_extra-1.0-py3-none-any.whl"},
        {"filename": "demo-extra-1.0.tar.gz"},
        {"filename": "../demo-1.0-py3-none-any.whl"},
        {"filename": "demo-1.0/../../x.whl"},
        {"filename": "demo-1.0-py3-none-any.whl\x1b[31m"},
        {"filename": "demo-1.0\u202e-py3-none-any.whl"},
        {"filename": "demo-1.0.exe"},
        {"filename": None},
        {"filename": "demo-" + "1" * 600 + ".tar.gz"},
        {"url": "file:///etc/demo-1.0-py3-none-any.whl"},
        {"url": "ftp://files.example/demo-1.0-py3-none-any.whl"},
        {"url": "javascript:alert(1)"},
        {"url": "https://[broken/demo"},
        {"url": "https://files.example/ demo"},
        {"url": 7},
    ],
)
def test_file_that_is_not_the_projects_or_not_safe_is_left_out(changes: dict[str, object]) -> None:
    kept = entry(filename="demo-2.0.tar.gz", url="demo-2.0.tar.gz")
    assert [file.filename for file in page_of([entry(**changes), kept]).files] == ["demo-2.0.tar.gz"]


@pytest.mark.parametrize("link", ["https://files.example/ demo", "https://files.example/\u00e9", "https://[x/demo"])
def test_a_file_whose_link_cannot_be_used_is_remembered(link: str) -> None:
    kept = entry(filename="demo-2.0.tar.gz", url="demo-2.0.tar.gz")
    other = entry(filename="other-1.0-py3-none-any.whl", url=link)
    page = page_of([entry(url=link), kept, other])
    assert len(page.files) == 1
    assert set(page.unusable) == {"demo-1.0-py3-none-any.whl"}
    anchors = f'<a href="{link}/demo-1.0-py3-none-any.whl">x</a><a href="/demo-2.0.tar.gz">y</a>'
    written = html(anchors)
    assert [file.filename for file in written.files] == ["demo-2.0.tar.gz"]
    assert set(written.unusable) == {"demo-1.0-py3-none-any.whl"}


def test_times_are_written_in_utc() -> None:
    """TOML knows no offset with seconds, and a lock carries the time on."""
    moment = one(page_of([entry(**{"upload-time": "2026-01-02T03:04:05+00:00:05"})])).upload_time
    assert moment is not None
    assert moment.isoformat() == "2026-01-02T03:04:00+00:00"


def test_names_are_compared_normalized() -> None:
    ref = PageRef("main", canonicalize_name("zope.interface"))
    names = ["zope.interface-5.0.tar.gz", "Zope_Interface-6.0-py3-none-any.whl", "zope-interface-7.0.zip"]
    body = json.dumps({"files": [{"filename": name, "url": name} for name in names]}).encode()
    assert [file.filename for file in parse_page(body, "application/json", BASE, ref).files] == names


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/vnd.pypi.simple.v1+json"),
        (b"[" * 100_000, "application/json"),
        (b"[]", "application/json"),
        (b'{"files": {}}', "application/json"),
        (b'{"meta": {"api-version": "2.0"}, "files": []}', "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"%PDF", "application/pdf"),
        (b"<html><body>Please <a href='/login'>sign in</a></body></html>", "application/octet-stream"),
        (b"<html><body>Your session has ended</body></html>", "text/html"),
    ],
)
def test_what_is_no_project_page_is_a_typed_error(body: bytes, content_type: str) -> None:
    with pytest.raises(TransportError) as caught:
        parse_page(body, content_type, "https://me:secret@index.example/simple/demo/?token=secret", DEMO)
    assert caught.value.code == "index-invalid-page"
    assert "secret" not in json.dumps(caught.value.to_json())


def test_html_file_of_the_pytorch_index() -> None:
    file = one(
        html(
            f'<a href="/whl/cu128/torch-2.9.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl#sha256={SHA}" '
            f'data-dist-info-metadata="sha256={OTHER}" data-core-metadata="sha256={OTHER}" '
            'data-upload-time="2026-04-23T10:00:00Z">torch-2.9.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl</a><br/>',
            TORCH,
            "https://download.pytorch.org/whl/cu128/torch/",
        )
    )
    assert file == IndexFile(
        page=TORCH,
        url="https://download.pytorch.org/whl/cu128/torch-2.9.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl",
        filename="torch-2.9.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl",
        hashes={"sha256": SHA},
        upload_time=datetime(2026, 4, 23, 10, tzinfo=UTC),
        metadata={"sha256": OTHER},
    )


@pytest.mark.parametrize(
    ("anchor", "attribute", "expected"),
    [
        ("<a href=demo-1.0.tar.gz>", "url", BASE + "demo-1.0.tar.gz"),
        ("<A HREF='demo-1.0.tar.gz'>", "url", BASE + "demo-1.0.tar.gz"),
        ('<a class="x" href="//files.example/demo-1.0.tar.gz">', "url", "https://files.example/demo-1.0.tar.gz"),
        ('<a href="demo-1.0.tar.gz?a=1&amp;b=2">', "url", BASE + "demo-1.0.tar.gz?a=1&b=2"),
        ('<a href="demo-1.0.tar.gz" data-requires-python="&gt;=3.8">', "requires_python", ">=3.8"),
        ('<a href="demo-1.0.tar.gz" data-requires-python=">=3.8,<4">', "requires_python", ">=3.8,<4"),
        ('<a href="demo-1.0.tar.gz" data-yanked>', "yanked", True),
        ('<a href="demo-1.0.tar.gz" data-yanked="bad &quot;build&quot;">', "yanked", 'bad "build"'),
        ('<a href="demo-1.0.tar.gz#egg=demo&amp;sha256=' + SHA + '">', "hashes", {"sha256": SHA}),
        ('<a href="demo-1.0.tar.gz#md5=' + "0" * 32 + '">', "hashes", {"md5": "0" * 32}),
        ('<a href="demo-1.0.tar.gz" data-core-metadata="true">', "metadata", {}),
        ('<a href="demo-1.0.tar.gz" data-core-metadata="false">', "metadata", None),
        ('<base href="https://other.example/x/"><a href="demo-1.0.tar.gz">', "url",
         "https://other.example/x/demo-1.0.tar.gz"),
        ('<!-- <a href="demo-9.0.tar.gz">no</a> --><a href="demo-1.0.tar.gz">', "filename", "demo-1.0.tar.gz"),
        ('<script>"<a href=demo-9.0.tar.gz>"</script><a href="demo-1.0.tar.gz">', "filename", "demo-1.0.tar.gz"),
    ],
)  # fmt: skip
def test_html_habits(anchor: str, attribute: str, expected: object) -> None:
    assert getattr(one(html(f"{anchor}demo</a>")), attribute) == expected


def test_page_that_lists_nothing_is_legal() -> None:
    assert html("").files == ()
    assert page_of([]).found


@pytest.mark.parametrize(
    "body",
    ["<a " * 60_000, "<a href='" * 60_000, "<" * 300_000, "<!--" * 60_000, "<script>" * 40_000, '<a x="' * 60_000],
)
def test_hostile_html_takes_linear_time(body: str) -> None:
    began = time.monotonic()
    html(body)
    assert time.monotonic() - began < 2


def _as_pep691(page: ProjectPage) -> list[dict[str, object]]:
    return [
        {
            "filename": file.filename,
            "hashes": dict(file.hashes),
            "requires-python": file.requires_python,
            "yanked": file.yanked,
            "core-metadata": None if file.metadata is None else dict(file.metadata) or True,
        }
        for file in page.files
    ]


def _oracle(details: oracle.ProjectDetails) -> list[dict[str, object]]:
    return [
        {
            "filename": file["filename"],
            "hashes": dict(file["hashes"]),
            "requires-python": file.get("requires-python"),
            "yanked": file.get("yanked", False),
            "core-metadata": file.get("core-metadata", file.get("dist-info-metadata")),
        }
        for file in details["files"]
    ]


def test_html_agrees_with_mousebender(fake_index: FakeIndex) -> None:
    fake_index.add_wheel("demo", "1.0", requires_python=">=3.9,<4")
    fake_index.add_wheel("demo", "2.0+local.1", yanked='do not <use> & "this"')
    fake_index.add_wheel("demo", "3.0", yanked=True, sidecar="unhashed")
    fake_index.add_wheel("demo", "4.0", sidecar="absent", build="2")
    for pytorch in (False, True):
        text = fake_index._html("demo", fake_index.files, pytorch=pytorch)
        page = parse_page(text.encode(), "text/html", BASE, DEMO)
        assert _as_pep691(page) == _oracle(oracle.from_project_details_html(text, "demo"))
        assert len(page.files) == 4


_attribute_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@settings(max_examples=150, deadline=None)
@given(requires=_attribute_text, yanked=_attribute_text, sha=st.from_regex(r"[0-9a-f]{64}", fullmatch=True))
def test_html_attributes_agree_with_mousebender(requires: str, yanked: str, sha: str) -> None:
    index = FakeIndex()
    index.add("demo-1.0.tar.gz", b"", requires_python=requires, yanked=yanked, sha256=sha)
    text = index._html("demo", index.files, pytorch=False)
    assert _as_pep691(parse_page(text.encode(), "text/html", BASE, DEMO)) == _oracle(
        oracle.from_project_details_html(text, "demo")
    )


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=300) | st.text(max_size=300).map(str.encode), json_page=st.booleans())
def test_any_bytes_give_a_page_or_a_typed_error(body: bytes, json_page: bool) -> None:
    kind = "application/json" if json_page else "text/html"
    assert code_of(lambda: parse_page(body, kind, BASE, DEMO)) in {None, "index-invalid-page"}


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=12), children, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(
    ["filename", "url", "hashes", "requires-python", "size", "yanked", "upload-time", "core-metadata"]
)


@settings(max_examples=80, deadline=None)
@given(files=st.lists(st.dictionaries(_keys, _json_values), max_size=4))
def test_any_json_values_are_survived(files: list[dict[str, object]]) -> None:
    page = page_of([{**entry(), **file} for file in files])
    assert all(file.url.startswith(("http://", "https://")) for file in page.files)


def test_urls_without_secrets() -> None:
    assert without_credentials("https://a:b@h.example:8/x?y=1#z") == "https://h.example:8/x?y=1"
    assert shown_url("https://a:b@h.example/x?sig=secret#z") == "https://h.example/x"
    assert shown_url("https://[") == "(unreadable URL)"
    assert shown_url("https://h.example/\x1b]0;x") == "https://h.example/?]0;x"

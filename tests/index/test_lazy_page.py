"""Pages that are read only where they are looked at: the same files as if all had been read, whatever the page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalock.errors import TransportError
from cudalock.index.lazy_page import LazyFiles, scan_page
from cudalock.index.simple import parse_page
from support.clients import main_page

JSON = "application/vnd.pypi.simple.v1+json"
URL = "https://index.example/simple/demo/"
LAYOUTS: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"indent": 2},
    {"indent": "\t", "ensure_ascii": False},
]
NAMES = st.one_of(
    st.from_regex(r"demo-[0-9]\.[0-9]-(py3|cp312)-none-any\.whl", fullmatch=True),
    st.from_regex(r"demo-[0-9]\.[0-9]\.tar\.gz", fullmatch=True),
    st.sampled_from(
        ["demo-1.0-py3-none-any.whl.asc", "demo", "other-1.0.whl", 'quo"te-1.whl', "back\\slash-1.whl", ""]
    ),
)
# what looks like the page's own structure, in a text that anybody may write
NASTY = st.sampled_from(["}, {", "},{", '"filename": "demo-9.9.tar.gz"', "}\n", '\\"}, {\\"filename\\":\\"x\\"', "]"])
EXTRAS = st.dictionaries(
    st.sampled_from(["yanked", "filename2", "hashes", "x"]),
    st.one_of(NASTY, st.text(max_size=8), st.dictionaries(st.sampled_from(["filename", "sha256"]), NASTY, max_size=2)),
    max_size=3,
)
ENTRIES = st.lists(st.tuples(NAMES, EXTRAS, st.booleans()), max_size=12)


def entry(name: str, extras: dict[str, Any], first: bool) -> dict[str, Any]:
    link = {"url": f"/files/{len(name)}/demo"}
    return {"filename": name, **extras, **link} if first else {**link, **extras, "filename": name}


def group(name: str) -> str:
    parts = name.split("-", 2)
    return parts[1] if name.endswith(".whl") and len(parts) == 3 else name


@given(ENTRIES, st.sampled_from(LAYOUTS), st.booleans())
def test_every_entry_is_found_where_it_is(
    given_entries: list[tuple[str, dict[str, Any], bool]], layout: dict[str, Any], files_first: bool
) -> None:
    entries = [entry(*one) for one in given_entries]
    around = {"meta": {"api-version": "1.1"}, "name": "demo"}
    page = {"files": entries, **around} if files_first else {**around, "files": entries}
    scanned = scan_page(json.dumps(page, **layout).encode(), 1000)
    assert scanned is not None
    text, spans = scanned
    expected: dict[str, list[dict[str, Any]]] = {}
    for one in entries:
        expected.setdefault(group(one["filename"]), []).append(one)
    found = {
        name: [json.loads(text[start:end]) for start, end in zip(where[::2], where[1::2], strict=True)]
        for name, where in spans.items()
    }
    assert found == expected


def page_of(*entries: str, between: str = ", ") -> bytes:
    return f'{{"files": [{between.join(entries)}], "meta": {{"api-version": "1.0"}}}}'.encode()


def wheel(version: str, more: str = "") -> str:
    name = f"demo-{version}-py3-none-any.whl"
    return f'{{"filename": "{name}", "url": "/files/{name}"{more}}}'


def test_a_page_with_an_entry_that_is_not_json_is_none() -> None:
    body = page_of(wheel("1.0"), wheel("2.0", ', "size": oops'), wheel("3.0"))
    with pytest.raises(TransportError) as caught:
        parse_page(body, JSON, URL, main_page("demo"))
    assert caught.value.code == "index-invalid-page"
    assert URL in caught.value.message


@pytest.mark.parametrize(
    "entries",
    [
        (wheel("1.0"), wheel("2.0", ', "filename": "demo-9.0-py3-none-any.whl"'), wheel("3.0")),
        (wheel("1.0"), wheel("2.0", ', "x": {"filename": "demo-9.0-py3-none-any.whl"}'), '{"x": 1}', wheel("3.0")),
        (wheel("1.0"), '{"x": {"filename": "demo-9.0-py3-none-any.whl"}}', wheel("3.0")),
        (wheel("1.0"), wheel("2.0", ', "x": [{}, {}]'), wheel("3.0")),
        (wheel("1.0"), "7", wheel("2.0"), wheel("3.0")),
    ],
    ids=["twice", "nested-and-none", "nested-only", "separator-within", "number"],
)
def test_a_file_is_found_under_its_own_version_only(entries: tuple[str, ...]) -> None:
    files = parse_page(page_of(*entries), JSON, URL, main_page("demo")).files
    assert isinstance(files, LazyFiles)
    for version in files.groups():
        for file in files.of_group(version):
            assert file.filename.split("-")[1] == version
    names = {file.filename for version in files.groups() for file in files.of_group(version)}
    assert {"demo-1.0-py3-none-any.whl", "demo-3.0-py3-none-any.whl"} <= names

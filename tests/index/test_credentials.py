from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from cudalock.errors import TransportError
from cudalock.index.credentials import Credentials, CredentialStore, split_credentials
from support.clients import Recorder, client_of, main_page
from support.fake_index import FakeIndex

SECRET = "s3cret-and-long"


@pytest.fixture
def guarded(fake_index: FakeIndex) -> FakeIndex:
    fake_index.credentials = ("me", SECRET)
    fake_index.add_wheel("demo", "1.0")
    return fake_index


def test_user_info_of_the_index_url(guarded: FakeIndex) -> None:
    recorder = Recorder()
    with client_of(guarded, main_url=f"https://me:{SECRET}@index.example/simple/", reporter=recorder) as client:
        page = client.page(main_page("demo"))
        client.metadata(page.files[0])
    assert SECRET not in page.url + page.files[0].url + recorder.texts() + repr(client.main)


def test_refusal_names_the_ways_and_no_secret(guarded: FakeIndex) -> None:
    with (
        client_of(guarded, main_url="https://me:wr0ng-pass@index.example/simple/") as client,
        pytest.raises(TransportError) as caught,
    ):
        client.page(main_page("demo"))
    text = json.dumps(caught.value.to_json())
    assert (caught.value.code, "netrc" in text, "wr0ng" in text) == ("index-http-error", True, False)


@pytest.mark.parametrize("by_variable", [True, False])
def test_netrc(guarded: FakeIndex, scrubbed_environment: Path, by_variable: bool) -> None:
    path = scrubbed_environment / ("elsewhere" if by_variable else ".netrc")
    path.write_text(f"machine index.example login me password {SECRET}\n")
    path.chmod(0o600)
    with client_of(guarded, environ={"NETRC": str(path)} if by_variable else {}) as client:
        assert client.page(main_page("demo")).found


@pytest.mark.parametrize("content", ["machine", "machine other.example login me password x\n", "\x00\xff", ""])
def test_netrc_that_does_not_help(guarded: FakeIndex, tmp_path: Path, content: str) -> None:
    (tmp_path / "netrc").write_text(content)
    with client_of(guarded, environ={"NETRC": str(tmp_path / "netrc")}) as client, pytest.raises(TransportError):
        client.page(main_page("demo"))


def fake_keyring(folder: Path) -> dict[str, str]:
    """A keyring command that knows one secret and writes down how it was called."""
    command = folder / "keyring"
    command.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n'
        f'[ "$1" = get ] && [ "$3" = me ] && echo {SECRET} && exit 0\n'
        f'[ "$1" = --mode ] && printf "me\\n{SECRET}\\n" && exit 0\nexit 1\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("variable", ["UV_KEYRING_PROVIDER", "PIP_KEYRING_PROVIDER"])
@pytest.mark.parametrize("user", ["me@", ""])
def test_keyring(guarded: FakeIndex, tmp_path: Path, variable: str, user: str) -> None:
    environ = fake_keyring(tmp_path) | {variable: "subprocess"}
    with client_of(guarded, main_url=f"https://{user}index.example/simple/", environ=environ) as client:
        assert client.page(main_page("demo")).found
        assert not client.page(main_page("other")).found
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert SECRET not in calls[0]


def test_keyring_is_not_asked_unless_wanted(guarded: FakeIndex, tmp_path: Path) -> None:
    with client_of(guarded, environ=fake_keyring(tmp_path)) as client, pytest.raises(TransportError):
        client.page(main_page("demo"))
    assert not (tmp_path / "calls").exists()


def test_credentials_belong_to_an_origin() -> None:
    store = CredentialStore([("https://index.example/simple/", Credentials("me", SECRET))], {"NETRC": os.devnull})
    assert store.header("https://index.example:443/other")
    for url in (
        "http://index.example/",
        "https://index.example:8443/",
        "https://files.example/",
        "https://sub.index.example/",
    ):
        assert store.header(url) is None


def test_splitting() -> None:
    assert split_credentials("https://h.example/x") == ("https://h.example/x", None)
    assert split_credentials("https://tok%2Fen@h.example/x") == ("https://h.example/x", Credentials("tok/en", ""))
    assert SECRET not in repr(Credentials("me", SECRET))

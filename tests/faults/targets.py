"""What is done with each kind of untrusted input, as functions of bytes: for hypothesis and for the fuzzer alike.

A target returns whatever happens within the rules; only what is no error of cudalock's comes out of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cudalock.builds import architectures_in
from cudalock.builds.archive import Archive
from cudalock.builds.assembler import read_triton
from cudalock.config import read_config
from cudalock.errors import CudalockError
from cudalock.host import read_facts
from cudalock.index import pip_settings
from cudalock.index.metadata import parse_metadata
from cudalock.index.sdist import read_sdist_metadata
from cudalock.index.simple import parse_page
from cudalock.index.wheel import read_wheel_metadata
from cudalock.install.admission import SourceRules, require_admissible
from cudalock.install.documents import hosts
from cudalock.lock import contract_findings, dump_lock, outdated, preferred_pins, recorded_policy, recorded_request
from cudalock.lock.drift import drift_findings
from cudalock.lock.environment import InstalledPackages
from cudalock.lock.file import parse_text
from cudalock.markers import holds
from cudalock.requirements import read_request
from support.clients import main_page, pytorch_page
from support.locks import linux_target

__all__ = ["TARGETS"]

Target = Callable[[bytes], None]
_REF, _TORCH_REF = main_page("demo"), pytorch_page("torch", "cu128")
_MACHINE = linux_target("9.0")
_EMPTY = InstalledPackages(venv=Path(".venv"), python=None)


def page_json(data: bytes) -> None:
    """A page in the dialect of PEP 691."""
    _look_at(data, "application/vnd.pypi.simple.v1+json")


def page_html(data: bytes) -> None:
    """A page in HTML."""
    _look_at(data, "text/html")


def _look_at(data: bytes, kind: str) -> None:
    for ref, url in (
        (_REF, "https://index.example/simple/demo/"),
        (_TORCH_REF, "https://whl.example/whl/cu128/torch/"),
    ):
        with contextlib.suppress(CudalockError):
            page = parse_page(data, kind, url, ref)
            for file in page.files:
                assert file.url.startswith(("https://", "http://"))
                assert re.fullmatch(r"[\x21-\x7e]+", file.url)
                assert "/" not in file.filename and file.filename != ".." and file.filename.isprintable()
                assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)


def metadata(data: bytes) -> None:
    """METADATA, with what resolution does with it."""
    with contextlib.suppress(CudalockError):
        found = parse_metadata(data, "demo-1.0-py3-none-any.whl")
        for requirement in found.requires:
            str(requirement)
            requirement.specifier.contains("1.0")
            holds(requirement.marker, _MACHINE.marker_environment)
        str(found.version), str(found.requires_python)


class _Remote(io.BytesIO):
    def load(self, start: int, end: int) -> None:
        assert end - start <= 17 << 20

    @property
    def size(self) -> int:
        return len(self.getvalue())


def wheel(data: bytes) -> None:
    """A wheel's directory and members."""
    with contextlib.suppress(CudalockError):
        read_wheel_metadata(_Remote(data), "demo-1.0-py3-none-any.whl")  # type: ignore[arg-type]
    with contextlib.suppress(CudalockError):
        architectures_in(io.BytesIO(data))
    with contextlib.suppress(CudalockError):
        archive = Archive(io.BytesIO(data))
        for name in archive.names[:20]:
            member = archive.find(name)
            assert member is not None
            with contextlib.suppress(CudalockError):
                archive.read(member, limit=1 << 16)


def sdist(data: bytes) -> None:
    """A source distribution, in both forms."""
    for name in ("demo-1.0.tar.gz", "demo-1.0.zip"):
        with contextlib.suppress(CudalockError):
            parse_metadata(read_sdist_metadata(io.BytesIO(data), name), name)


def binary(data: bytes) -> None:
    """What is read out of shared libraries and of assemblers."""
    from cudalock.doctor.collect.elf import read_elf, read_fatbin, undefined_symbols

    with contextlib.suppress(CudalockError):
        architectures_in(io.BytesIO(data))
    from packaging.version import Version

    def members(*names: str) -> Iterator[bytes] | None:
        return iter([data[: len(data) // 2], data[len(data) // 2 :]])

    with contextlib.suppress(CudalockError):
        read_triton(Version("99.0"), members, origin="triton.whl")
    with _file(data, "lib.so") as path, contextlib.suppress(CudalockError):
        read_elf(path)
        read_fatbin(path)
        undefined_symbols(path, re.compile("x"))


def lock(data: bytes) -> None:
    """A lock, and all that commands do with one before they contact anybody."""
    with contextlib.suppress(CudalockError):
        found = parse_text(data.decode("utf-8", "replace"), "pylock.toml")
        for action in (
            lambda: hosts(found.pylock),
            lambda: require_admissible(found.pylock, Path("/srv/nowhere"), SourceRules()),
            lambda: preferred_pins(found),
            lambda: contract_findings(found, _MACHINE),
            lambda: drift_findings(found, _EMPTY),
            lambda: [marker.evaluate() for marker in found.pylock.environments or ()],
            lambda: outdated(found, recorded_request(found), _MACHINE, recorded_policy(found)),
            lambda: dump_lock(found),
        ):
            with contextlib.suppress(CudalockError):
                action()


def facts(data: bytes) -> None:
    """A facts file, and the report that is made of it."""
    from cudalock.doctor import make_report
    from cudalock.doctor.replay import evidence_from_facts

    with contextlib.suppress(CudalockError):
        host, environment = read_facts("-", stdin=io.StringIO(data.decode("utf-8", "replace")))
        make_report(evidence_from_facts(host, environment))


def requirements(data: bytes) -> None:
    """A file of requirements, and each of its lines as an argument."""
    with _file(data, "requirements.txt") as path:
        with contextlib.suppress(CudalockError):
            read_request((), requirement_files=[str(path)])
        with contextlib.suppress(CudalockError):
            read_request((), requirement_files=[], constraint_files=[str(path)])
    for line in data.decode("utf-8", "replace").splitlines()[:5]:
        with contextlib.suppress(CudalockError):
            read_request([line], requirement_files=[])


def log(data: bytes) -> None:
    """A log for ``explain``."""
    from cudalock.explain import explain

    with contextlib.suppress(CudalockError):
        explain([("log", io.BytesIO(data))]).to_json()


def configuration(data: bytes) -> None:
    """A pyproject.toml and pip's configuration."""
    with _file(data, "pyproject.toml") as path:
        with contextlib.suppress(CudalockError):
            read_config(path=path)
        with contextlib.suppress(CudalockError):
            pip_settings({"PIP_CONFIG_FILE": str(path)})


@contextlib.contextmanager
def _file(data: bytes, name: str) -> Iterator[Path]:
    path = Path(tempfile.gettempdir()) / f"cudalock-target-{os.getpid()}-{name}"
    path.write_bytes(data)
    try:
        yield path
    finally:
        path.unlink()


TARGETS: Mapping[str, Target] = {
    target.__name__: target
    for target in (
        page_json, page_html, metadata, wheel, sdist, binary, lock, facts, requirements, log, configuration,
    )
}  # fmt: skip

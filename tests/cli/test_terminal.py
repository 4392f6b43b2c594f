"""On a terminal: bars move, lines come above them, nothing breaks, and stdout stays data."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from cudalock.cli.console import ConsoleReporter
from support.fake_index import FakeIndex

LOG = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"


def on_a_terminal(arguments: list[str], folder: Path, *, stdout: int | None = None, stdin: str = "") -> tuple[int, str]:
    """Exit status, and all that the terminal was sent; ``stdout`` goes elsewhere if it is given."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cudalock", *arguments], cwd=folder, stdin=subprocess.PIPE, stderr=theirs,
        stdout=theirs if stdout is None else stdout, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"},
    )  # fmt: skip
    os.close(theirs)
    seen: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # the other side is closed
                return
            if not piece:
                return
            seen.append(piece)

    listener = threading.Thread(target=listen)
    listener.start()
    process.communicate(stdin.encode(), timeout=60)
    listener.join(timeout=30)
    os.close(ours)
    return process.returncode, b"".join(seen).decode()


def test_explain_reads_with_a_bar(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(LOG)
    status, seen = on_a_terminal(["explain", "one.log"], tmp_path)
    assert status == 1, seen
    assert "gpu-not-in-wheel" in seen
    status, seen = on_a_terminal(["explain"], tmp_path, stdin=LOG * 50_000)
    assert status == 1, seen
    assert "gpu-not-in-wheel" in seen


def test_what_goes_elsewhere_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(LOG * 50_000)
    with (tmp_path / "out").open("wb") as out:
        status, seen = on_a_terminal(["explain", "one.log"], tmp_path, stdout=out.fileno())
    assert status == 1, seen
    text = (tmp_path / "out").read_text()
    assert "gpu-not-in-wheel" in text
    assert "\x1b" not in text
    assert "gpu-not-in-wheel" not in seen


def test_fetch_draws_a_bar_for_each_file(
    fake_index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"demo{number}" for number in range(12)]
    for name in names:
        fake_index.add_wheel(name, "1.0", files={f"{name}/data.bin": os.urandom(300_000)})
    with fake_index.serve():
        monkeypatch.setenv("CUDALOCK_INDEX_URL", fake_index.main_url)
        monkeypatch.setenv("CUDALOCK_PYTORCH_INDEX_URL", fake_index.pytorch_url)
        status, seen = on_a_terminal(["resolve", *names, "--cpu"], tmp_path)
        assert status == 0, seen
        status, seen = on_a_terminal(["fetch", "wheels"], tmp_path)
    assert status == 0, seen
    assert "12 files fetched" in seen
    assert len(list((tmp_path / "wheels").glob("*.whl"))) == 12


@pytest.mark.parametrize("total", [None, 7, 5_000_000])
def test_many_threads_move_bars_at_once(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    threading.Thread(target=lambda: [None for _ in iter(lambda: _read(ours), b"")], daemon=True).start()
    failed: list[BaseException] = []
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        reporter = ConsoleReporter()
        assert isinstance(reporter.console, Console)

        def work(name: str) -> Callable[[], None]:
            def move() -> None:
                try:
                    for step in range(8):
                        reporter.advance(name, (total or 70) * step // 7, total, unit="bytes" if step % 2 else "")
                        reporter.message("note", f"{name} at [bold]{step}[/bold]")
                except BaseException as error:  # noqa: BLE001 - whatever it is, the test tells of it
                    failed.append(error)

            return move

        threads = [threading.Thread(target=work(f"file{number}")) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reporter.close()
    assert not failed


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""

"""``cudalock detect``: what this machine is, and which probe said so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudalock.cli.command import command as make_command
from cudalock.cli.output import clean, console_for
from cudalock.cli.session import Session

if TYPE_CHECKING:
    from cudalock.host.model import Gpu, Host

__all__ = ["command"]


@make_command("detect")
def command(session: Session) -> int:
    """Driver, CUDA the driver offers, every GPU, platform and Python of this machine.

    A machine without a GPU is an answer, not an error. `--json` prints what `--facts` takes on another machine.
    """
    from cudalock.host import detect, host_to_json

    host = detect(reporter=session.reporter)
    if not session.answer({"host": host_to_json(host)}):
        _draw(host)
    return 0


def _draw(host: Host) -> None:
    from rich.table import Table

    console = console_for(stderr=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_column(style="dim")
    for label, value, key in _rows(host):
        table.add_row(label, clean(value), host.origin.get(key, ""))
    for gpu in host.gpus:
        table.add_row(f"GPU {gpu.index}", clean(_gpu_line(gpu)), ", ".join(sorted(set(gpu.origin.values()))))
    if not host.gpus:
        table.add_row("GPUs", "none" if host.gpus_known else "none found (no probe could list GPUs)", "")
    console.print(table)


def _rows(host: Host) -> list[tuple[str, str, str]]:
    libc = f", {host.libc[0]} {host.libc[1][0]}.{host.libc[1][1]}" if host.libc else ""
    driver = str(host.driver) if host.driver else "none found"
    if host.driver and host.kernel_module:
        driver += f" ({host.kernel_module} kernel module)"
    if host.driver_library and host.driver_library != host.driver:
        driver += f", but its library is {host.driver_library}"
    cuda = str(host.cuda_driver) if host.cuda_driver else "unknown"
    if host.compat_library:
        cuda += f" (raised by {host.compat_library})"
    surroundings = [word for word, holds in (("WSL", host.wsl), ("Jetson", host.jetson)) if holds]
    if host.container:
        surroundings.append(f"container ({host.container.kind or 'unknown kind'})")
    rows = [
        ("driver", driver, "driver"),
        ("CUDA of the driver", cuda, "cuda_driver"),
        ("platform", f"{host.os or 'unknown'} {host.machine or ''}{libc}".strip(), "machine"),
        ("Python", host.python or "unknown", "python"),
    ]
    if host.os_release:
        rows.insert(3, ("system", host.os_release, "os_release"))
    if surroundings:
        rows.append(("inside", ", ".join(surroundings), "container"))
    if host.visible_devices is not None:
        rows.append(("CUDA_VISIBLE_DEVICES", host.visible_devices or "(empty: hides every GPU)", ""))
    return rows


def _gpu_line(gpu: Gpu) -> str:
    parts: list[Any] = [gpu.name or "unknown name"]
    parts.append(f"compute capability {gpu.compute_capability or 'unknown'}")
    if gpu.memory_bytes:
        parts.append(f"{gpu.memory_bytes / 2**30:.0f} GiB")
    if gpu.mig_enabled:
        parts.append(f"MIG on, {len(gpu.mig_devices)} instances")
    if gpu.uuid:
        parts.append(gpu.uuid)
    return ", ".join(parts)

"""Runs the benchmark: ``python -m benchmarks [--runs 5] [--rtt-ms 0 20 80] [--sets torch vllm] [--output FILE]``.

``python -m benchmarks --install [pylock.toml]`` measures installations alone (see :mod:`benchmarks.installing`).

Each round runs every tool in turn, first with an empty cache (cold) and then again with the cache that this left
(warm), so that a machine that gets slower meanwhile is slower for all. The table shows medians and the ratio to uv of
the same round; requests and bytes are the server's counts, peak memory is that of the tool's largest process.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.installing import measure_install
from benchmarks.server import ServerProcess
from benchmarks.tools import PYTHON, SETS, TARGET, Outcome, Tool, measure, remove, tools

Row = dict[str, Any]


def main() -> int:
    """Measures, prints the table and writes the JSON."""
    options = _options()
    chosen = [tool for tool in tools() if tool.name in options.tools]
    rows: list[Row] = []
    if options.install is None:
        with ServerProcess() as server:
            rows += _resolutions(server, chosen, options)
            if not options.only_resolve:
                rows += _many_targets(server, options.runs)
                rows += _start_up(options.runs)
    if not options.only_resolve:
        lock = Path(options.install) if options.install else None
        rows += measure_install(lock, 3 * options.runs, functools.partial(_say, error=True))
    report = {"schema": 1, "machine": _machine(), "versions": _versions(chosen), "runs": options.runs, "rows": rows}
    if options.output:
        Path(options.output).write_text(json.dumps(report, indent=2) + "\n")
    _say(_table(rows))
    return 1 if any(row["failed"] for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="rounds; the medians of them are shown")
    parser.add_argument("--rtt-ms", type=float, nargs="+", default=[0, 20, 80], help="added to each answer")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--tools", nargs="+", default=["cudalock", "uv", "pip"])
    parser.add_argument("--no-sidecars", action="store_true", help="also without PEP 658 sidecars (pip is left out)")
    parser.add_argument("--only-resolve", action="store_true", help="leave out many targets, start-up, installing")
    parser.add_argument(
        "--install", nargs="?", const="", metavar="LOCK", help="only install: LOCK, or a made set of wheels without one"
    )
    parser.add_argument("--output", help="file for the JSON")
    return parser.parse_args()


def _resolutions(server: ServerProcess, chosen: Sequence[Tool], options: argparse.Namespace) -> Iterator[Row]:
    for sidecars in (True, False) if options.no_sidecars else (True,):
        for set_name in options.sets:
            for rtt_ms in options.rtt_ms:
                server.set(rtt_s=rtt_ms / 1000, sidecars=sidecars)
                # without sidecars pip downloads whole wheels, gigabytes of them
                here = [tool for tool in chosen if sidecars or tool.name != "pip"]
                yield from _rounds(server, here, set_name, rtt_ms, options.runs, sidecars=sidecars)


def _rounds(
    server: ServerProcess, chosen: Sequence[Tool], set_name: str, rtt_ms: float, runs: int, *, sidecars: bool
) -> Iterator[Row]:
    taken: dict[tuple[str, str], list[tuple[Outcome, dict[str, int]]]] = {}
    for number in range(runs):
        for tool in chosen:
            cache = Path(tempfile.mkdtemp(prefix="benchmark-"))
            try:
                for state in ("cold", "warm"):
                    server.set(rtt_s=rtt_ms / 1000, sidecars=sidecars)
                    outcome = tool.run(SETS[set_name], server.index_url, cache=cache)
                    taken.setdefault((tool.name, state), []).append((outcome, server.counts()))
                    if outcome.status:
                        _say(f"{tool.name} failed: {outcome.output[-1000:]}")
            finally:
                remove(cache)
        _say(f"  {set_name}, {rtt_ms:g} ms: round {number + 1} of {runs}", error=True)
    for (name, state), outcomes in taken.items():
        yield {
            "set": set_name,
            "rtt_ms": rtt_ms,
            "sidecars": sidecars,
            "tool": name,
            "state": state,
            **_medians([outcome for outcome, _ in outcomes]),
            "requests": statistics.median(counts["requests"] for _, counts in outcomes),
            "counts": outcomes[-1][1],
            "bytes": statistics.median(counts["bytes"] for _, counts in outcomes),
            "ratio_to_uv": _ratio([outcome for outcome, _ in outcomes], taken, "uv", state),
            "ratio_to_pip": _ratio([outcome for outcome, _ in outcomes], taken, "pip", state),
        }


def _medians(outcomes: Sequence[Outcome]) -> Row:
    return {
        "wall_s": round(statistics.median(outcome.wall_s for outcome in outcomes), 4),
        "cpu_s": round(statistics.median(outcome.cpu_s for outcome in outcomes), 4),
        "fastest_s": round(min(outcome.wall_s for outcome in outcomes), 4),
        "peak_mib": round(statistics.median(outcome.peak_mib for outcome in outcomes), 1),
        "failed": sum(outcome.status != 0 for outcome in outcomes),
    }


def _ratio(
    mine: Sequence[Outcome], taken: dict[tuple[str, str], list[tuple[Outcome, dict[str, int]]]], other: str, state: str
) -> float | None:
    """The median of the ratios round by round."""
    theirs = taken.get((other, state))
    if theirs is None:
        return None
    return round(statistics.median(a.wall_s / b.wall_s for a, (b, _) in zip(mine, theirs, strict=True)), 3)


def _many_targets(server: ServerProcess, runs: int) -> list[Row]:
    """One resolution for 20 targets beside one for a single target, both with an empty cache, at 20 ms."""
    cudalock = Path(sys.executable).parent / "cudalock"
    gpus = ["H100", "A100", "L4", "RTX 4090", "RTX 3090", "T4", "B200", "L40S", "A10", "RTX 5090"]
    targets = "".join(
        f'[tool.cudalock.targets.t{i}]\ngpu = ["{gpu}"]\ndriver = "{driver}"\npython = "{PYTHON}"\n'
        'platform = "x86_64-manylinux_2_28"\n'
        for i, (gpu, driver) in enumerate((gpu, driver) for gpu in gpus for driver in ("580.65.06", "590.44.01"))
    )
    outcomes: dict[int, list[Outcome]] = {1: [], 20: []}
    counts: dict[int, dict[str, int]] = {}
    for _ in range(runs):
        for number, taken in outcomes.items():
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "pyproject.toml").write_text(targets)
                named = [part for i in range(number) for part in ("--target", f"t{i}")]
                command = [
                    str(cudalock), "resolve", *SETS["fine-tuning"], *named, "--no-pytorch-index",
                    "--index-url", server.index_url, "--cache-dir", f"{folder}/cache",
                ]  # fmt: skip
                server.set(rtt_s=0.02, sidecars=True)
                taken.append(measure(command, Path(folder)))
                counts[number] = server.counts()
                if taken[-1].status:
                    _say(taken[-1].output[-1000:])
    ratio = statistics.median(a.wall_s / b.wall_s for a, b in zip(outcomes[20], outcomes[1], strict=True))
    return [
        {
            "set": f"{number} target{'s' if number > 1 else ''}", "rtt_ms": 20, "tool": "cudalock", "state": "cold",
            **_medians(outcomes[number]), "requests": counts[number]["requests"], "bytes": counts[number]["bytes"],
            "ratio_to_one": round(ratio, 3) if number > 1 else None,
        }
        for number in outcomes
    ]  # fmt: skip


def _start_up(runs: int) -> list[Row]:
    """What a command costs before it does anything, beside the bare interpreter."""
    cudalock = str(Path(sys.executable).parent / "cudalock")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, ServerProcess() as server:
        server.set(rtt_s=0, sidecars=True)
        lock = [cudalock, "resolve", "torch", *TARGET, "--python", PYTHON, "--no-pytorch-index"]
        made = measure([*lock, "--index-url", server.index_url, "--cache-dir", f"{folder}/cache"], Path(folder))
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "--version": [cudalock, "--version"],
            "--help": [cudalock, "--help"],
            "check": [cudalock, "check"],
            "check for a GPU": [cudalock, "check", "--gpu", "9.0", "--driver", "580.65.06"],
        }
        taken: dict[str, list[Outcome]] = {name: [] for name in commands}
        for _ in range(max(3 * runs, 5)):
            for name, command in commands.items():
                taken[name].append(measure(command, Path(folder)))
        for name, outcomes in taken.items():
            rows.append({"set": name, "tool": "start-up", "state": "", **_medians(outcomes)})
            rows[-1]["failed"] += made.status
    return rows


def _machine() -> Row:
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _versions(chosen: Sequence[Tool]) -> dict[str, str]:
    found = {}
    for tool in chosen:
        command = [*(tool.command[:3] if tool.name == "pip" else tool.command[:1]), "--version"]
        command = [part.format(executable=sys.executable) for part in command]
        found[tool.name] = (
            subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().split(" from ")[0]
        )
    return found


def _table(rows: Sequence[Row]) -> str:
    titles = ("set", "rtt", "state", "tool", "wall s", "cpu s", "/ uv", "/ pip", "requests", "MB", "peak MiB")
    lines: list[tuple[str, ...]] = [titles]
    for row in rows:
        bare = row.get("sidecars") is False
        lines.append(
            (
                f"{row['set']}{' (no sidecars)' if bare else ''}", f"{row['rtt_ms']:g} ms" if "rtt_ms" in row else "",
                row["state"], row["tool"], f"{row['wall_s']:.3f}", f"{row['cpu_s']:.3f}",
                _number(row.get("ratio_to_uv")), _number(row.get("ratio_to_pip")),
                f"{row['requests']:g}" if "requests" in row else "",
                f"{row['bytes'] / 1e6:.1f}" if "bytes" in row else "", f"{row['peak_mib']:.0f}",
            )
        )  # fmt: skip
        if row.get("ratio_to_one"):
            lines.append(("", "", "", f"20 targets / one target: {row['ratio_to_one']:.2f}", *[""] * 7))
    widths = [max(len(line[i]) for line in lines if not line[3].startswith("20 targets")) for i in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _say(text: str, *, error: bool = False) -> None:
    stream = sys.stderr if error else sys.stdout
    stream.write(text + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())

"""The same message as it stands in real logs: with what loggers, launchers, terminals and clusters put around it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping

__all__ = ["UNRELATED", "VARIANTS"]

NOISE = "INFO step 12 loss 1.73 lr 2.9e-05 tokens/s 14022"


def _each(prefix: str) -> Callable[[str], str]:
    return lambda text: "\n".join(prefix + line for line in text.splitlines())


def _interleaved(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(f"[rank0]: {NOISE}\n[rank3]: {line}\n[rank1]: {NOISE}" for line in lines)


def _wrapped_with_ranks(text: str) -> str:
    lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, 100) or [""]]
    return "\n".join(f"[rank1]: {NOISE}\n[rank3]: {line}" for line in lines)


def _wrapped(text: str) -> str:
    return "\n".join(piece for line in text.splitlines() for piece in textwrap.wrap(line, 60) or [""])


def _cut_by_terminal(text: str) -> str:
    return "\n".join(
        line[start : start + 80] for line in text.splitlines() for start in range(0, max(len(line), 1), 80)
    )


def _in_frame(text: str) -> str:
    lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, 76) or [""]]
    return "\n".join(["╭" + "─" * 78 + "╮", *(f"│ {line:<76} │" for line in lines), "╰" + "─" * 78 + "╯"])


def _json_lines(text: str) -> str:
    return "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-05-12T10:02:11.12Z"})
        for line in text.splitlines()
    )


def _json_record(text: str) -> str:
    return json.dumps({"ts": 1.0, "level": "error", "exception": {"message": text, "type": "RuntimeError"}})


def _coloured(text: str) -> str:
    return "\n".join(f"\x1b[31m\x1b[1m{line[:7]}\x1b[0m{line[7:]}\x1b[0m" for line in text.splitlines())


VARIANTS: Mapping[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "in the middle of a log": lambda text: f"{NOISE}\n" * 200 + text + f"\n{NOISE}" * 200,
    "CRLF": lambda text: text.replace("\n", "\r\n") + "\r\n",
    "coloured": _coloured,
    "timestamps": _each("2026-05-12 10:02:11,120 ERROR "),
    "ISO timestamps": _each("2026-05-12T10:02:11.120000Z "),
    "torchrun": _each("[rank3]: "),
    "mpirun": _each("[1,0]<stderr>:"),
    "srun": _each("3: "),
    "kubectl": _each("[pod/trainer-0/worker] 2026-05-12T10:02:11.120000Z "),
    "CRI": _each("2026-05-12T10:02:11.120000000+02:00 stderr F "),
    "compose": _each("trainer-1  | "),
    "ray": _each("(TrainWorker pid=4242, ip=10.0.0.3) "),
    "vllm": _each("(EngineCore_0 pid=273) "),
    "syslog": _each("May 12 10:02:11 node7 trainer[4242]: "),
    "buildkit": _each("#14 23.45 "),
    "pytest": _each("E   "),
    "interleaved": _interleaved,
    "wrapped": _wrapped,
    "wrapped and interleaved": _wrapped_with_ranks,
    "cut by the terminal": _cut_by_terminal,
    "framed": _in_frame,
    "json lines": _json_lines,
    "json record": _json_record,
    "other languages around it": lambda text: f"Fehler beim Laden, 学习失败：\n{text}\nошибка, el proceso terminó",
    "curly quotes": lambda text: text.replace("'", "\u2019").replace("`", "\u2018"),
}

UNRELATED: Mapping[str, str] = {
    "a value error": (
        "Traceback (most recent call last):\n"
        '  File "/app/train.py", line 88, in <module>\n    main()\n'
        '  File "/app/train.py", line 41, in main\n    x = proj(x)\n'
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x256)"
    ),
    "out of memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB"
        " of which 1.12 GiB is free. Including non-PyTorch memory, this process has 22.52 GiB memory in use."
    ),
    "a device-side assert": (
        "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0],"
        " thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
        "RuntimeError: CUDA error: device-side assert triggered"
    ),
    "GB10's warning": (
        "UserWarning: Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
        "    Minimum and Maximum cuda capability supported by this version of PyTorch is\n    (8.0) - (12.0)"
    ),
    "nginx": '2026/05/12 10:02:11 [error] 29#29: *1 connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.5, server: example.example, request: "GET /api HTTP/1.1"',
    "postgres": (
        '2026-05-12 10:02:11.120 UTC [73] ERROR:  relation "users" does not exist at character 15\n'
        "2026-05-12 10:02:11.120 UTC [73] STATEMENT:  SELECT * FROM users"
    ),
    "npm": (
        "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree\n"
        'npm error Found: react@18.2.0\nnpm error peer react@"^17.0.0" from react-foo@1.0.0'
    ),
    "rust": "error[E0382]: borrow of moved value: `s`\n --> src/main.rs:5:20\n  |\n4 |     let t = s;\n  |             - value moved here",
    "java": (
        'Exception in thread "main" java.lang.NullPointerException: Cannot invoke "String.length()" because "<local1>" is null\n'
        "\tat com.example.Main.main(Main.java:5)"
    ),
    "an import of one's own": "ModuleNotFoundError: No module named 'my_project.utils'",
    "pip for a private package": (
        "ERROR: Could not find a version that satisfies the requirement my-private-lib==1.2 (from versions: none)\n"
        "ERROR: No matching distribution found for my-private-lib==1.2"
    ),
    "a hub without permission": (
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url"
        " https://hub.example/meta/model/resolve/main/config.json. Access to model meta/model is restricted."
    ),
    "kubelet": (
        'E0512 09:14:03.551928    1873 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \\"StartContainer\\"'
        ' for \\"web\\" with ImagePullBackOff: \\"Back-off pulling image\\"" pod="default/web-0"'
    ),
    "gcc": "main.c:12:5: error: 'foo' undeclared (first use in this function)\nmake: *** [Makefile:4: main.o] Error 1",
    "healthy training": "\n".join(
        f"2026-05-12 10:{i // 60:02}:{i % 60:02} INFO step {i} loss {3 / (i + 1):.4f} gpu_mem 41.2GiB"
        for i in range(300)
    ),
}

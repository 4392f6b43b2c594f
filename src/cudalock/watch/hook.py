"""Runs inside the watched program: writes down each Triton kernel that is compiled or loaded. Standard library only.

It must work in any Python from 3.8 on, without cudalock, and must never change or break the program: whatever goes
wrong in here is swallowed. Triton's own hooks have one slot each, which the program may need, and differ between
versions. What has stayed the same from 3.0 to 3.9 (read in each release's compiler/compiler.py) is that ``make_ir`` of
the source runs only when a kernel is really compiled, and that a ``CompiledKernel`` is made for each variant, compiled
or found on disk; both are methods, so that kernels which ran before are watched too.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set

__all__ = ["install", "start", "uninstall"]

_COMPILER = "triton.compiler.compiler"
_GLUON = "triton.experimental.gluon._runtime"
_LONGEST = 200  # characters of a value that are kept

# Members of a kernel's metadata that come out of the compilation instead of going into it.
_RESULTS = frozenset((
    "hash", "name", "target", "shared", "triton_version", "arch", "backend_name", "warp_size", "ptx_version",
    "tmem_size", "global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align",
    "tensordesc_meta", "extern_libs", "ids", "cluster_dims_x", "ctas_per_cga",
))  # fmt: skip

Event = Dict[str, Any]

_sinks: List[Callable[[Event], None]] = []
_originals: List[Any] = []
_pending = threading.local()


def start(directory: str) -> None:
    """Watches this process from its start on: events go to a file of its own in ``directory``."""
    handles: Dict[int, int] = {}

    def write(event: Event) -> None:
        pid = os.getpid()
        if pid not in handles:  # a fork writes a file of its own
            name = os.path.join(directory, "events-%d-%d.jsonl" % (pid, int(time.time() * 1000)))
            handles[pid] = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(handles[pid], (json.dumps(_process()) + "\n").encode())
        os.write(handles[pid], (json.dumps(event) + "\n").encode())

    _sinks.append(write)
    _emit({"event": "started"})
    sys.meta_path.insert(0, _Finder())
    atexit.register(_dynamo)


def install(sink: Callable[[Event], None]) -> None:
    """Watches this process from now on; ``sink`` takes each event. For a program that watches itself."""
    _sinks.append(sink)
    sys.meta_path.insert(0, _Finder())
    for name in (_COMPILER, _GLUON):
        if name in sys.modules:
            _patch(sys.modules[name])


def uninstall(sink: Callable[[Event], None]) -> None:
    """Ends what :func:`install` began, after a last look at torch.compile's own record."""
    _dynamo()
    if sink in _sinks:
        _sinks.remove(sink)
    if not _sinks:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        while _originals:
            owner, name, original = _originals.pop()
            setattr(owner, name, original)


def _emit(event: Event) -> None:
    event.setdefault("pid", os.getpid())
    event.setdefault("time", time.time())
    for sink in tuple(_sinks):
        try:
            sink(event)
        except Exception:
            pass


def _process() -> Event:
    ranks = {name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID") if name in os.environ}
    return {"event": "process", "pid": os.getpid(), "time": time.time(), "executable": sys.executable, "ranks": ranks}


class _Finder:
    """Lets the other finders find Triton's compiler, and patches it as soon as it is loaded."""

    def __init__(self) -> None:
        self._active = threading.local()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in (_COMPILER, _GLUON) or getattr(self._active, "yes", False):
            return None
        self._active.yes = True
        try:
            for finder in sys.meta_path:
                if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                    return spec
        finally:
            self._active.yes = False
        return None


class _Loader:
    """A loader that patches what it loaded, and gives the module its own loader back."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = self._loader
        if getattr(module, "__spec__", None) is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _patch(module)


def _patch(module: Any) -> None:
    try:
        for name in ("ASTSource", "IRSource", "GluonASTSource"):
            source = getattr(module, name, None)
            if source is not None and "make_ir" in vars(source):
                _replace(source, "make_ir", _watched_make_ir)
        kernel = getattr(module, "CompiledKernel", None)
        if kernel is not None:
            _replace(kernel, "__init__", _watched_kernel)
            version = getattr(sys.modules.get("triton"), "__version__", None)
            _emit({"event": "triton", "version": version or _version_of(module)})
    except Exception as error:
        _emit({"event": "unsupported", "error": repr(error)[:_LONGEST]})


def _version_of(module: Any) -> Optional[str]:
    """From the package's own text: it is still being imported when its compiler is."""
    try:
        path = os.path.join(os.path.dirname(os.path.dirname(module.__file__)), "__init__.py")
        with open(path) as file:
            for line in file:
                if line.startswith("__version__"):
                    return line.split("=")[1].strip().strip("'\"")
    except Exception:
        pass
    return None


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    if getattr(original, "_cudalock", False):
        return
    wrapped = wrap(original)
    wrapped._cudalock = True
    _originals.append((owner, name, original))
    setattr(owner, name, wrapped)


def _watched_make_ir(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def make_ir(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            _begin(self)
        except Exception:
            pass
        return original(self, *args, **kwargs)

    return make_ir


def _watched_kernel(original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, src: Any, *args: Any, **kwargs: Any) -> None:
        original(self, src, *args, **kwargs)
        try:
            _end(self, src)
        except Exception as error:
            _emit({"event": "unsupported", "error": repr(error)[:_LONGEST]})

    return __init__


def _begin(src: Any) -> None:
    """A source is really being compiled; the reference keeps its id from being used again."""
    _close_range()
    _pending.source, _pending.started, _pending.range = src, time.perf_counter(), None
    nvtx = _nvtx()
    if nvtx is not None:
        _pending.range = nvtx.range_start("cudalock: triton compiles %s" % getattr(src, "name", "?"))


def _close_range() -> None:
    nvtx_range = getattr(_pending, "range", None)
    if nvtx_range is not None:
        _pending.range = None
        _nvtx().range_end(nvtx_range)


def _end(kernel: Any, src: Any) -> None:
    compiled = getattr(_pending, "source", None) is src
    marked = compiled and getattr(_pending, "range", None) is not None
    seconds = time.perf_counter() - _pending.started if compiled else 0.0
    if compiled:
        _close_range()
        _pending.source = None
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else dict(kernel.metadata)
    target = metadata.get("target")
    event = {
        "event": "kernel",
        "action": "compiled" if compiled else "loaded",
        "seconds": round(seconds, 6),
        "kernel": getattr(src, "name", None) or metadata.get("name"),
        "hash": str(getattr(kernel, "hash", "")),
        "options": {key: _short(value) for key, value in metadata.items() if key not in _RESULTS and not key.isupper()},
        "target": [_short(getattr(target, key, None)) for key in ("backend", "arch")],
        "thread": threading.current_thread().name,
        "nvtx": bool(marked),
    }
    event.update(_function(src))
    event.update(_surroundings())
    event["tuned"] = _tuned()
    _emit(event)


def _function(src: Any) -> Event:
    """The function behind a kernel and how its arguments were specialised."""
    function = getattr(src, "fn", None)
    if function is None:
        return {"arguments": {}, "module": None, "file": getattr(src, "path", None), "line": None, "source": None}
    plain = getattr(function, "fn", function)
    code = getattr(plain, "__code__", None)
    try:
        source = function.cache_key
    except Exception:
        source = None
    return {
        "kernel": getattr(plain, "__qualname__", None) or src.name,
        "module": getattr(plain, "__module__", None),
        "file": getattr(code, "co_filename", None),
        "line": getattr(code, "co_firstlineno", None),
        "source": source,
        "arguments": _arguments(function, src),
    }


def _arguments(function: Any, src: Any) -> Dict[str, Event]:
    """By name: type, whether divisible by 16, the value compiled in, and whether it is a constexpr by declaration."""
    names = list(getattr(function, "arg_names", None) or [])
    declared = {names[i] for i in getattr(function, "constexprs", ()) if i < len(names)}
    constants = _by_name(getattr(src, "constants", None) or getattr(src, "constexprs", None) or {}, names)
    types = _by_name(getattr(src, "signature", None) or {}, names)
    divisible = _divisible(getattr(src, "attrs", None), names)
    found: Dict[str, Event] = {}
    for name in names or sorted(set(types) | set(constants)):
        kind = types.get(name)
        found[name] = {
            "type": None if kind in (None, "constexpr") else str(kind),
            "divisible": name in divisible,
            "constant": _short(constants[name]) if name in constants else None,
            "is_constant": name in constants,
            "constexpr": name in declared,
        }
    return found


def _by_name(mapping: Any, names: List[str]) -> Event:
    """Keys are names in 3.0 to 3.2, positions or paths (i,), (i, j) later: a path into a tuple counts for the tuple."""
    found: Event = {}
    for key, value in mapping.items():
        if isinstance(key, tuple):
            place = key[0] if key else None
            name = names[place] if isinstance(place, int) and place < len(names) else str(place)
            if len(key) > 1:
                part = "%s=%s" % (list(key[1:]), _short(value))
                found[name] = "%s, %s" % (found[name], part) if name in found else part
                continue
        elif isinstance(key, int):
            name = names[key] if key < len(names) else str(key)
        else:
            name = str(key)
        found[name] = value
    return found


def _divisible(attrs: Any, names: List[str]) -> Set[Any]:
    """3.0, 3.1: divisible_by_16; 3.2: arg_properties; from 3.3 on: {path: [[property, value]]}."""
    found: Set[Any] = set()
    if isinstance(attrs, dict):
        for key, properties in attrs.items():
            place = key[0] if isinstance(key, tuple) and key else key
            if any(it and it[0] == "tt.divisibility" for it in properties):
                found.add(place)
    elif hasattr(attrs, "arg_properties"):
        found.update(attrs.arg_properties.get("tt.divisibility", ()))
    else:
        found.update(getattr(attrs, "divisible_by_16", None) or ())
    return {names[it] if isinstance(it, int) and it < len(names) else it for it in found}


def _short(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = getattr(value, "value", None) if type(value).__name__ == "constexpr" else None
    if text is not None:
        return _short(text)
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _torch() -> Any:
    """torch, if the program has imported it and works on a GPU."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return torch if cuda is not None and cuda.is_initialized() else None


def _nvtx() -> Any:
    torch = _torch()
    nvtx = getattr(torch.cuda, "nvtx", None) if torch is not None else None
    return nvtx if hasattr(nvtx, "range_start") else None


def _surroundings() -> Event:
    """The device, the autocast type if it is on, and whether a CUDA graph is being captured."""
    found: Event = {"device": None, "autocast": None, "capturing": False}
    try:
        torch = _torch()
        if torch is not None:
            found["device"] = torch.cuda.current_device()
            found["capturing"] = bool(torch.cuda.is_current_stream_capturing())
            try:
                on, kind = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
            except (TypeError, AttributeError):  # before 2.4
                on, kind = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
            found["autocast"] = str(kind).replace("torch.", "") if on else None
    except Exception:
        pass
    return found


def _tuned() -> List[str]:
    """Names of the arguments that an autotuner is trying out, if one is on the stack."""
    frame: Any = sys._getframe(2)
    for _ in range(80):
        if frame is None:
            return []
        if frame.f_code.co_filename.endswith(("autotuner.py", "triton_heuristics.py")):
            configs = getattr(frame.f_locals.get("self"), "configs", None)
            if configs and len(configs) > 1:
                names = {name for config in configs for name in getattr(config, "kwargs", ())}
                return sorted(names | {"num_warps", "num_stages", "num_ctas", "maxnreg"})
        frame = frame.f_back
    return []


def _dynamo() -> None:
    """What torch.compile says of itself at the end: each function that was compiled, and why again."""
    try:
        utils = sys.modules.get("torch._dynamo.utils")
        if utils is None:
            return
        config = sys.modules.get("torch._dynamo.config")
        limit = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
        for one in utils.get_compilation_metrics():
            name = getattr(one, "co_name", None)
            if name is None or getattr(one, "is_forward", True) is False:
                continue
            _emit({
                "event": "torch-compile",
                "function": name,
                "file": getattr(one, "co_filename", None),
                "line": getattr(one, "co_firstlineno", None),
                "reason": _short(getattr(one, "recompile_reason", None)),
                "seconds": getattr(one, "entire_frame_compile_time_s", None),
                "failed": _short(getattr(one, "fail_reason", None)),
                "limit": limit,
            })  # fmt: skip
    except Exception:
        pass

"""Programs for the watcher: a stand-in for Triton's compiler, and the real one made to work without a GPU."""

from __future__ import annotations

import textwrap
from pathlib import Path

__all__ = ["REAL_KERNEL", "stand_in"]

_COMPILER = """
import collections, json

class ASTSource:
    def __init__(self, fn, signature, constants=None, attrs=None):
        self.fn, self.signature, self.constants, self.attrs, self.name = fn, signature, constants or {}, attrs, fn.__name__

    def make_ir(self, *args):
        return "module {}"

class IRSource:
    def make_ir(self, *args):
        return "module {}"

class CompiledKernel:
    def __init__(self, src, metadata_group, hash):
        Metadata = collections.namedtuple("Metadata", sorted(metadata_group))
        self.metadata, self.hash = Metadata(**metadata_group), hash

STORE = set()

def compile(src, **options):
    key = repr((src.signature, src.constants, src.attrs, options))
    if key not in STORE:
        src.make_ir()
        STORE.add(key)
    return CompiledKernel(src, {"num_warps": 4, "shared": len(key), "target": None, **options}, key)
"""


def stand_in(folder: Path) -> Path:
    """A package ``triton`` with the two classes that the hook looks for; returns the folder for PYTHONPATH."""
    package = folder / "triton" / "compiler"
    package.mkdir(parents=True)
    (folder / "triton" / "__init__.py").write_text('__version__ = "3.6.0"\nfrom .compiler import compile\n')
    (package / "__init__.py").write_text("from .compiler import compile, ASTSource, CompiledKernel\n")
    (package / "compiler.py").write_text(_COMPILER)
    return folder


REAL_KERNEL = textwrap.dedent(
    '''
    """Compiles without a GPU: a driver that only names its target, and arguments that only have a type and an address."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    class Driver:
        def get_current_target(self):
            return GPUTarget("cuda", 80, 32)
        def get_current_device(self):
            return 0
        def get_current_stream(self, device):
            return 0

    driver.set_active(Driver())

    class DType:
        def __init__(self, name):
            self.name = name
        def __str__(self):
            return "torch." + self.name
        def __hash__(self):
            return hash(self.name)
        def __eq__(self, other):
            return self.name == other.name

    class Tensor:
        def __init__(self, dtype, address=0):
            self.dtype, self.address = DType(dtype), address
        def data_ptr(self):
            return self.address

    @triton.jit
    def add_k(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

    def compile_for(x, n, block, **options):
        add_k.warmup(x, Tensor("float32"), n, BLOCK=block, grid=(1,), **options)
    '''
)

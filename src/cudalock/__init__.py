"""cudalock: one consistent torch / triton / CUDA triple for machines with NVIDIA GPUs, locked, installed and proven."""

__all__ = ["__version__"]

__version__ = "0.1.0"

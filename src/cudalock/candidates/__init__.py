"""What may be chosen for a target, in order: files by their tags, rule R6's pages, rule R5's builds of torch. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalock import lazy_names

if TYPE_CHECKING:
    from cudalock.candidates.companions import CompanionCandidates, implies_torch, paired_torch
    from cudalock.candidates.files import FileRules
    from cudalock.candidates.labels import build_of_row, labels_to_ask
    from cudalock.candidates.model import Candidate, FileIdentity, JudgedBuild, Refusal
    from cudalock.candidates.names import FileName, parse_file_name
    from cudalock.candidates.pages import Listing, Pages, PytorchUse
    from cudalock.candidates.plain import VersionWish, fitting_files
    from cudalock.candidates.replay import Replay
    from cudalock.candidates.torch import TorchCandidates
    from cudalock.candidates.triton import TORCH, TRITON_NAMES, TritonCandidates

__all__ = [
    "Candidate",
    "CompanionCandidates",
    "FileIdentity",
    "FileName",
    "FileRules",
    "JudgedBuild",
    "Listing",
    "Pages",
    "PytorchUse",
    "Refusal",
    "Replay",
    "TORCH",
    "TRITON_NAMES",
    "TorchCandidates",
    "TritonCandidates",
    "VersionWish",
    "build_of_row",
    "fitting_files",
    "implies_torch",
    "labels_to_ask",
    "paired_torch",
    "parse_file_name",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "companions": (
            "CompanionCandidates",
            "implies_torch",
            "paired_torch",
        ),
        "files": ("FileRules",),
        "labels": (
            "build_of_row",
            "labels_to_ask",
        ),
        "model": (
            "Candidate",
            "FileIdentity",
            "JudgedBuild",
            "Refusal",
        ),
        "names": (
            "FileName",
            "parse_file_name",
        ),
        "pages": (
            "Listing",
            "Pages",
            "PytorchUse",
        ),
        "plain": (
            "VersionWish",
            "fitting_files",
        ),
        "replay": ("Replay",),
        "torch": ("TorchCandidates",),
        "triton": (
            "TORCH",
            "TRITON_NAMES",
            "TritonCandidates",
        ),
    },
)

"""Sphinx configuration. The reference is generated: commands from click, findings and tables from the data."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generate import write_reference

import cudalock

project = "cudalock"
author = "The cudalock authors"
copyright = "2026, the cudalock authors"
release = version = cudalock.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "cudalock"
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
nitpicky = False

write_reference(Path(__file__).parent / "reference" / "generated")

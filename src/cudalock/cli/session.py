"""What the commands of one run share: how to answer, how loud to be, and the project's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cudalock.cli.console import ConsoleReporter
from cudalock.cli.output import emit_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudalock.config import ProjectConfig

__all__ = ["Session"]


@dataclass(kw_only=True)
class Session:
    """The state of one command line; made before its options are parsed, because they take defaults from it."""

    as_json: bool = False
    reporter: ConsoleReporter = field(default_factory=ConsoleReporter)
    _config: ProjectConfig | None = None

    @property
    def config(self) -> ProjectConfig:
        """``[tool.cudalock]`` of the nearest ``pyproject.toml``; read once."""
        if self._config is None:
            from cudalock.config import read_config

            self._config = read_config()
        return self._config

    def option_defaults(self) -> dict[str, Any]:
        """``[tool.cudalock]``'s values for options, by the names that click gives parameters."""
        return {name.replace("-", "_"): value for name, value in self.config.defaults.items()}

    def answer(self, payload: Mapping[str, Any]) -> bool:
        """Prints ``payload`` if the user asked for JSON, and says whether it did."""
        if self.as_json:
            emit_json(payload)
        return self.as_json

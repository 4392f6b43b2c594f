"""All faults of the input at once: collected while reading, raised together as one error."""

from __future__ import annotations

from dataclasses import dataclass, field

from cudalock.errors import UsageError

__all__ = ["Faults"]


@dataclass(slots=True)
class Faults:
    """Collects the errors of an input, so that a user mends them all in one go."""

    errors: list[UsageError] = field(default_factory=list)

    def add(self, error: UsageError) -> None:
        """Remembers one fault; reading goes on."""
        self.errors.append(error)

    def raise_if_any(self) -> None:
        """Raises the only fault as it is, several as one error with the first one's code and all of them in details.

        Raises:
            UsageError: if anything was added.
        """
        if not self.errors:
            return
        first = self.errors[0]
        if len(self.errors) == 1:
            raise first
        hints = list(dict.fromkeys(error.hint for error in self.errors if error.hint))
        raise UsageError(
            first.code,
            "\n".join(error.message for error in self.errors),
            hint="\n".join(hints) or None,
            details={"faults": [error.to_json() for error in self.errors]},
        )

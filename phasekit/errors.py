"""The one exception that means "the input is wrong": one line, naming field, value and what is allowed."""

from typing import Any

_LONGEST = 60  # characters of a value that still help the reader; the rest of a long list doesn't


class InputError(ValueError):
    """A wrong input. ``str(error)`` is one line for the user; the command line prints it and exits with 2."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field} = {_on_one_line(value)}: {' '.join(allowed.split())}")

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, object, str]]:
        """Rebuild from the three parts, so that the error survives a trip between processes."""
        return type(self), (self.field, self.value, self.allowed)


def _on_one_line(value: object) -> str:
    """Return the value as Python writes it, without line breaks (arrays have them) and not endlessly long."""
    try:
        text = " ".join(repr(_plain(value)).split())
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} too long to print"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _plain(value: Any) -> Any:
    """Return NumPy's numbers, alone or in a list, as Python's: ``-1.0`` instead of ``np.float64(-1.0)``."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    is_number = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_number else value

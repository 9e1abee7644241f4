"""The one exception that means "the input is wrong": one line, naming field, value and what is allowed."""


class InputError(ValueError):
    """A wrong input. ``str(error)`` is one line for the user; the command line prints it and exits with 2."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field} = {value!r}: {allowed}")

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, object, str]]:
        """Rebuild from the three parts, so that the error survives a trip between processes."""
        return type(self), (self.field, self.value, self.allowed)

"""What is said about a schedule that cannot be used."""


class ScheduleError(ValueError):
    """A schedule's text is refused; `message` is one sentence that says what to write instead.

    `column` is 1-based within `text`, the text as it was given, or None where no single place is wrong.
    """

    def __init__(self, message: str, *, column: int | None = None, text: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.column = column
        self.text = text

    def placed_in(self, text: str, shift: int = 0) -> "ScheduleError":
        """Return the same refusal, its column counted in `text`, in which the refused part begins at `shift`."""
        column = None if self.column is None else self.column + shift
        return ScheduleError(self.message, column=column, text=text)

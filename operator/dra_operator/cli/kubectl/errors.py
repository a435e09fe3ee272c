"""What keeps a question from an answer; each text is a line, or several, that says what to do."""


class ReadingError(Exception):
    """The cluster, or a file, cannot be read, or not what an answer needs."""


class RefusedError(Exception):
    """The API server refused a request: the reason, as `Forbidden`, and its own words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

"""What keeps a question from an answer; each text is a line, or several, that says what to do."""


class AccessError(Exception):
    """There is no way to an API server; the text says what was tried and what to do."""


class ReadingError(Exception):
    """The cluster, or a file, cannot be read, or not what an answer needs."""


class RequestError(Exception):
    """No answer came that could be understood."""


class RefusedError(Exception):
    """The API server refused a request, in its own words. `is_status` says that it was the API server who did."""

    def __init__(self, status: int, message: str, *, is_status: bool) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.is_status = is_status

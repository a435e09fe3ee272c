"""What a question cannot be answered for: something that it names is not there, or cannot be asked about."""


class QuestionError(ValueError):
    """One line with object, field, value and what to do."""


class UnknownObjectError(QuestionError):
    """An object is named that is not there."""

"""The version, kept in a file so that a source archive without git builds the same."""

__version__ = "0.1.0"

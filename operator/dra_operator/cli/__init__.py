"""The command dra-operator."""

"""`python -m dra_operator` is the command `dra-operator`."""

from dra_operator.cli import main

if __name__ == "__main__":
    main()

"""`python -m dra_bridge`."""

from dra_bridge.cli import main

if __name__ == "__main__":
    main()

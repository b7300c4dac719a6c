"""``python -m silobench`` is the command."""

from silobench.cli import main

if __name__ == "__main__":
    main()

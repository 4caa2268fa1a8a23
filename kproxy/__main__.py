"""``python -m kproxy``: the command line."""

from kproxy.cli import main

if __name__ == "__main__":
    main()

"""``python -m kproxy.page.live``: the process of the live page."""

from kproxy.page.live.process import main

if __name__ == "__main__":
    main()

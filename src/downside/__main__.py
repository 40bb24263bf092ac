"""``python -m downside`` is the same as ``downside``."""

from downside.cli import main

main()

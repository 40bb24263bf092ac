"""A command of the command line in this process: what it printed, and its exit code."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from downside.cli import main


class Ended:
    """What a command left: exit code and what it printed."""

    def __init__(self, *arguments: object):
        out, errors = io.StringIO(), io.StringIO()
        self.code = 0
        before, sys.argv = sys.argv, ["downside", *map(str, arguments)]
        try:
            with redirect_stdout(out), redirect_stderr(errors):
                main()
        except SystemExit as stop:
            self.code = stop.code or 0
        finally:
            sys.argv = before
        self.out, self.errors = out.getvalue(), " ".join(errors.getvalue().split())

    @property
    def json(self):
        """The one document on standard output, strict."""
        return json.loads(self.out, parse_constant=pytest.fail)

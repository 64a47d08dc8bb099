"""Checks of a Python client: each runs alone, and its outcome is a line."""

import os
import sys
import traceback

HOST = os.environ["PGHOST"]
PORT = int(os.environ["PGPORT"])
USER = os.environ["PGUSER"]
DATABASE = os.environ["PGDATABASE"]


class Checks:
    """The outcomes of the checks of a program."""

    def __init__(self):
        self.failed = 0

    def note(self, name, error):
        """Prints the outcome of a check; `error` is the exception of one that failed."""
        if error is None:
            print(f"ok {name}")
            return
        self.failed += 1
        text = str(error).strip().split("\n")[0] or repr(error)
        print(f"FAIL {name}: {type(error).__name__}: {text}")
        if os.environ.get("CLIENTS_TRACE"):
            traceback.print_exception(error)

    def run(self, check):
        """Runs a check."""
        try:
            check()
            self.note(check.__name__, None)
        except BaseException as error:  # noqa: BLE001 - every failure is an outcome
            self.note(check.__name__, error)

    def end(self):
        """Ends the program: status 1 if a check has failed."""
        sys.exit(1 if self.failed else 0)


def same(found, wanted):
    """Fails if the two differ."""
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def fails(code, action, kind=Exception, code_of=lambda error: error.sqlstate):
    """Fails unless `action` fails with this SQLSTATE."""
    try:
        action()
    except kind as error:
        same(code_of(error), code)
        return error
    raise AssertionError(f"no error {code}")

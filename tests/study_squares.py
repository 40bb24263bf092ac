"""Studies of squares, and what has become of their trials."""

from downside.studies.folder import fates, read_study

SQUARE = {"function": "study_trials:square"}


def squares(n, **arguments):
    return {**SQUARE, "arguments": arguments}, {"x": list(range(n))}


def digests(folder):
    """The SHA-256 of every file of results, by trial."""
    return {name: fate.files for name, fate in fates(folder, read_study(folder)).items()}


def fate_of(folder, name):
    return fates(folder, read_study(folder))[name]

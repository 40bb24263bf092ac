"""What is found wrong with an environment: how bad, what it is, and what to do about it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, final, get_args

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing about an environment: how bad, what it is, and what to do about it.

    >>> print(Finding("error", "the reward at step 3 is nan", "return a finite number"))
    error: the reward at step 3 is nan
           -> return a finite number
    """

    severity: Severity
    what: str
    advice: str

    def __str__(self) -> str:
        indent = " " * (len(self.severity) + 2)
        return f"{self.severity}: {self.what}\n{indent}-> {self.advice}"


@final
@dataclass(frozen=True)
class EnvironmentCheck:
    """What was found; ``ok`` unless something would break or falsify learning."""

    name: str
    findings: tuple[Finding, ...]
    n_steps: int = 0
    n_episodes: int = 0

    @property
    def ok(self) -> bool:
        """No errors; warnings and notes may stand."""
        return not self.errors

    @property
    def errors(self) -> list[Finding]:
        """What must be repaired."""
        return [each for each in self.findings if each.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """What is probably not meant."""
        return [each for each in self.findings if each.severity == "warning"]

    def __str__(self) -> str:
        rank = {name: i for i, name in enumerate(get_args(Severity))}
        lines = [str(each) for each in sorted(self.findings, key=lambda f: rank[f.severity])]
        seen = f"{self.n_steps:,} steps in {self.n_episodes} episodes of random actions"
        counts = Counter(each.severity for each in self.findings)
        words = ", ".join(_counted(counts[name], name) for name in rank if counts[name])
        return "\n".join([f"{self.name}: {words or 'nothing found'} ({seen})", *lines])


@dataclass
class Notes:
    """Findings, each kind once."""

    found: list[Finding] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def add(self, kind: str, severity: Severity, what: str, advice: str) -> None:
        """Unless there is one of its kind."""
        if kind not in self.kinds:
            self.kinds.add(kind)
            self.found.append(Finding(severity, what, advice))

    @property
    def has_errors(self) -> bool:
        """Whether anything must be repaired."""
        return any(each.severity == "error" for each in self.found)


def shown(value: Any) -> str:
    """A value in at most 60 characters."""
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."


def in_words(error: Exception) -> str:
    """Its type and what it says."""
    return f"{type(error).__name__}: {plain(str(error))}"


def plain(text: str) -> str:
    """Without the colours of Gymnasium's logger, on one line."""
    text = text.replace("\x1b[33m", "").replace("\x1b[0m", "").replace("WARN: ", "")
    return " ".join(text.split())[:300]


def _counted(n: int, name: str) -> str:
    return f"{n} {name}" if n == 1 else f"{n} {name}s"

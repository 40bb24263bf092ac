"""A study: a list of trials, each described by plain values and named after them."""

import hashlib
import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast, final, get_args
from unicodedata import normalize
from urllib.parse import quote

from downside.checks import (
    check_choice,
    check_count,
    check_names,
    check_positive,
    check_single,
)
from downside.experiments.catalogue import EXPERIMENTS, Scale
from downside.specification import DEFAULTS, completed, load
from downside.studies.checking import check_arguments, check_name, check_table, check_values

RESOURCES: dict[str, Any] = {"devices": 1, "gpus": 0}
EXPERIMENT: dict[str, Any] = {"experiment": None, "scale": "default", "seed": 0}
FUNCTION: dict[str, Any] = {"function": None, "arguments": {}}
KINDS = {"experiment": EXPERIMENT, "function": FUNCTION, "env": DEFAULTS}
_FILE = ("name", "base", "grid", "limits")
_NESTED = {"env": ("env_arguments", "settings"), "function": ("arguments",), "experiment": ()}
_LONGEST = 120


@dataclass(frozen=True)
class Limits:
    """How long an attempt at a trial may take, and how much memory; without end by default.

    >>> Limits(seconds=60.0).memory_gb
    inf
    """

    seconds: float = math.inf
    memory_gb: float = math.inf

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value != math.inf:
                check_positive(name, value)


@dataclass(frozen=True)
class Trial:
    """One trial: a pure function of its specification; ``values`` are those that vary."""

    id: str
    specification: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def devices(self) -> int:
        """How many JAX devices it uses, one core each."""
        return int(self.specification["devices"])

    @property
    def kind(self) -> str:
        """What is run: "env" is a training."""
        return kind_of(self.specification)


@final
class Study:
    """All combinations of a grid of values, put into one specification.

    ``base`` is the specification of a training (see `downside.specification`), of an experiment
    of the paper ({"experiment": "bandit", "scale": "smoke"}) or of a function of your own
    ({"function": "module:name", "arguments": {...}}); with it go "devices" and "gpus" of a trial.
    ``grid`` gives a list of values for a key of it, or of its settings; "env_arguments.discount"
    is an argument of the environment. ``seconds`` and ``memory_gb`` limit each trial.

    >>> base = {"env": "downside/Portfolio-v0", "settings": {"target": "centralised"},
    ...         "n_seeds": 5, "total_timesteps": 300_000}
    >>> study = Study(base, grid={"threshold": [0.2, 0.4], "order": [1]})
    >>> [trial.id for trial in study.trials]
    ['portfolio/threshold=0.2/order=1', 'portfolio/threshold=0.4/order=1']
    """

    def __init__(
        self,
        base: Any,
        grid: Any = None,
        *,
        name: str = "study",
        seconds: float = math.inf,
        memory_gb: float = math.inf,
    ) -> None:
        grid = {} if grid is None else grid
        for key, table in (("base", base), ("grid", grid)):
            check_table(key, table)
        check_name(name)
        self.name, self.limits = name, Limits(seconds, memory_gb)
        self.trials = _trials(base, grid)

    @staticmethod
    def from_toml(path: str | Path) -> "Study":
        """Read a study from a file with the tables [base], [grid] and [limits]."""
        path = Path(path)
        try:
            document = tomllib.loads(path.read_bytes().decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text in UTF-8, as TOML must be: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path} is not TOML: {error}") from error
        try:
            check_names("key", document, _FILE)
            if "base" not in document:
                raise ValueError("it has no [base], the specification that the trials share")
            check_table("limits", limits := document.get("limits", {}))
            check_names("limit", limits, ("seconds", "memory_gb"))
            for key, value in limits.items():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise ValueError(f"{key} is {value!r}; give a number above 0")
            check_name(name := document.get("name", path.stem))
            return Study(document["base"], document.get("grid"), name=name, **limits)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from error

    @staticmethod
    def of(trials: Sequence[Trial], *, name: str, limits: Limits | None = None) -> "Study":
        """A study of trials that are known already, such as those of a study's folder."""
        study = object.__new__(Study)
        study.name, study.limits, study.trials = name, limits or Limits(), tuple(trials)
        return study

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        trials = [asdict(trial) for trial in self.trials]
        return {"name": self.name, "limits": asdict(self.limits), "trials": trials}

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> "Study":
        """What `to_dict` gave."""
        trials = [Trial(**entry) for entry in document["trials"]]
        return Study.of(trials, name=document["name"], limits=Limits(**document["limits"]))


def kind_of(specification: Mapping[str, Any]) -> str:
    """Which key says what the trial runs."""
    found = [kind for kind in KINDS if kind in specification]
    if not found:  # a slip in that key?
        check_names("key", specification, [*KINDS, *{k for kind in KINDS.values() for k in kind}])
    if len(found) != 1:
        raise ValueError(
            f"a specification has one of {', '.join(KINDS)}; this one has "
            f"{' and '.join(found) or 'none'} (its keys: {', '.join(specification) or 'none'})"
        )
    return found[0]


def complete(specification: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with every key; refused if something in it is wrong.

    >>> complete({"experiment": "bandit", "sale": "smoke"})
    Traceback (most recent call last):
    ValueError: there is no key 'sale'; did you mean scale?
    """
    kind = kind_of(specification)
    check_names("key", specification, [*KINDS[kind], *RESOURCES])
    resources = {**RESOURCES, **_only(specification, RESOURCES)}
    check_count("devices", resources["devices"], least=1)
    check_count("gpus", resources["gpus"], least=0)
    inner = {key: value for key, value in specification.items() if key not in RESOURCES}
    if kind == "env":
        whole = completed(inner)
        check_single("a trial", whole["settings"], "put the values into the grid")
        return {**whole, **resources}
    whole = {**KINDS[kind], **inner}
    if kind == "experiment":
        check_names("experiment", [whole["experiment"]], EXPERIMENTS)
        check_choice("scale", whole["scale"], get_args(Scale))
        check_count("seed", whole["seed"], least=0)
    else:
        function = load("function", whole["function"])
        check_table("arguments", whole["arguments"])
        check_arguments(whole["function"], function, whole["arguments"])
    return {**whole, **resources}


def _trials(base: Mapping[str, Any], grid: Mapping[str, Any]) -> tuple[Trial, ...]:
    kind = _kind_with(base, grid)
    paths = {key: _place(kind, key) for key in grid}
    for key, values in grid.items():
        check_values(key, values, _NESTED[kind])
    names = _short_names(grid)
    labels_differ = len({_label({kind: v}) for v in grid.get(kind, [])}) == len(grid.get(kind, []))
    trials: list[Trial] = []
    for combination in itertools.product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        specification = _put(base, {paths[key]: value for key, value in values.items()})
        shown = {key: v for key, v in values.items() if not (key == kind and labels_differ)}
        parts = [_label(specification), *(f"{names[key]}={_shown(v)}" for key, v in shown.items())]
        named = {names[key]: value for key, value in values.items()}
        trials.append(Trial("/".join(map(_safe, parts)), complete(specification), named))
    twice = [name for name, n in Counter(trial.id for trial in trials).items() if n > 1]
    if twice:
        raise ValueError(f"the trial {twice[0]} is there twice; a grid's values must differ")
    return tuple(trials)


def _kind_with(base: Mapping[str, Any], grid: Mapping[str, Any]) -> str:
    return kind_of({**base, **{key: None for key in grid if key in KINDS}})


def _place(kind: str, key: str) -> tuple[str, ...]:
    """Where a key of the grid goes: a key of the specification, a nested one, or a setting."""
    top = {*KINDS[kind], *RESOURCES}
    if key in top:
        return (key,)
    head, _, rest = key.partition(".")
    if rest and head in _NESTED[kind]:
        return (head, rest)
    if rest or kind == "experiment":
        check_names("key of the grid", [key], [*top, *(f"{each}." for each in _NESTED[kind])])
    return ("settings" if kind == "env" else "arguments", key)


def _put(base: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    whole = {k: dict(v) if isinstance(v, Mapping) else v for k, v in base.items()}
    for place, value in values.items():
        inner = whole if len(place) == 1 else whole.setdefault(place[0], {})
        check_table(place[0], inner)
        inner[place[-1]] = value
    return whole


def _short_names(grid: Mapping[str, Any]) -> dict[str, str]:
    last = Counter(key.rpartition(".")[2] for key in grid)
    return {key: key if last[s := key.rpartition(".")[2]] > 1 else s for key in grid}


def _label(specification: Mapping[str, Any]) -> str:
    """portfolio, for downside/Portfolio-v0; what is made or called, for module:function."""
    name = str(specification[kind_of(specification)])
    return name.removeprefix("downside/").partition("-v")[0].rpartition(":")[2].lower()


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return ",".join(f"{key}({_shown(inner)})" for key, inner in entries)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _safe(part: str) -> str:
    """A part of an id as the name of a folder, wherever that is."""
    text = "".join(c if _is_letter(c) else quote(c, safe="=,()+-_.[] ") for c in part)
    text = f"%2E{text[1:]}" if text.startswith(".") else text
    if len(text.encode()) <= _LONGEST:
        return text
    start = text.encode()[: _LONGEST - 9].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(part.encode()).hexdigest()[:8]}"


def _is_letter(character: str) -> bool:
    """A letter or digit of any script, which no file system takes for another."""
    return character.isalnum() and normalize("NFC", character) == character


def _only(specification: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: specification[key] for key in keys if key in specification}

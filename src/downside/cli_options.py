"""What is typed on the command line as plain values; what is wrong with it, and what to type."""

import ast
import math
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any

DEFAULTS: dict[str, Any] = {"algorithm": "nrcpo", "total_timesteps": 300_000}
TARGETS = {"centralised": "centralised", "td-error": "td_error", "td_error": "td_error"}
SETTINGS = ("order", "way", "policy", "discount", "horizon", "num_envs", "precision")
NAMED = (*SETTINGS, "target", "threshold")
TOP = ("env", "seed", "n_seeds", "total_timesteps", "n_eval_episodes")
MAY_CHANGE = ("total_timesteps", "n_eval_episodes")
MOST_POINTS = 1000


def typed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a specification that was typed; ``options`` by name, None where one was not.

    >>> typed({"env": "CartPole-v1", "target": "450", "threshold": ["5,10"], "seed": None})
    {'env': 'CartPole-v1', 'settings': {'target': 450.0, 'threshold': [5.0, 10.0]}}
    """
    found = {name: options[name] for name in TOP if options.get(name) is not None}
    if options.get("algo") is not None:
        found["algorithm"] = options["algo"]
    settings = {name: options[name] for name in SETTINGS if options.get(name) is not None}
    if options.get("target") is not None:
        settings["target"] = target(options["target"])
    if options.get("threshold"):
        parts = [part for text in options["threshold"] for part in text.split(",")]
        settings["threshold"] = [number("--threshold", part) for part in parts]
    if options.get("thresholds") is not None:
        settings["threshold"] = grid("--thresholds", options["thresholds"])
    for name, value in pairs("--option", options.get("option") or ()).items():
        if name in NAMED:
            raise ValueError(f"--option has {name}; give it as --{dashed(name)} instead")
        settings[name] = value
    arguments = pairs("--set", options.get("set_") or ())
    found |= {"env_arguments": arguments} if arguments else {}
    return found | ({"settings": settings} if settings else {})


def as_typed(message: str) -> str:
    """A sentence about an argument of Python, in the words of the command line.

    >>> as_typed("num_envs is 0; it must be a whole number")
    '--num-envs is 0; it must be a whole number'
    """
    name, _, rest = message.partition(" ")
    if name in (*NAMED, *TOP[1:]) and rest.startswith(("is ", "has ")):
        message = f"--{dashed(name)} {rest}"
    message = message.replace("num_envs=", "--num-envs ")
    return message.replace("give period=", "give --option period=")


def started(given: Mapping[str, Any], option: str = "--threshold") -> dict[str, Any]:
    """The specification of a new run; ``option`` is how its bound is typed."""
    if "env" not in given:
        raise ValueError(
            "ENV is missing; give a Gymnasium id such as CartPole-v1, one of ours such as "
            "downside/Portfolio-v0, or module:factory"
        )
    whole = {**DEFAULTS, **given}
    settings = whole.get("settings", {})
    bound = [name for name in ("target", "threshold") if name in settings]
    if whole["algorithm"] == "nac":
        if bound:
            raise ValueError(
                f"--algo nac has no bound on risk; leave --{bound[0]} out, or give --algo nrcpo"
            )
    elif "constraints" not in settings and len(bound) < 2:
        raise ValueError(_missing(bound, option))
    if str(whole["env"]).startswith("downside/"):
        for name in ("discount", "horizon"):
            if name in settings:
                raise ValueError(
                    f"--{name} is for Gymnasium environments; {whole['env']} has its own: give "
                    f"--set {name}={settings[name]}"
                )
    return whole


def _missing(bound: list[str], option: str) -> str:
    about = (
        "--target 100 (a return below 100 is a shortfall), --target centralised (about the mean) "
        "or --target td-error"
    )
    if bound == ["target"]:
        return (
            f"--target is given without {option}; add {option}, such as {option} 0.5 for a risk "
            "of at most 0.5 in the units of the return (inf for no bound, to see the risk first)"
        )
    if bound == ["threshold"]:
        return f"{option} is given without --target; add {about}"
    return (
        f"what is bounded? add {about}, and {option}, such as {option} 0.5; or --algo nac for no "
        "bound"
    )


def resumed(saved: Mapping[str, Any], given: Mapping[str, Any], folder: Any) -> dict[str, Any]:
    """The saved specification, up to the steps that are asked for; any other change is refused.

    >>> resumed({"seed": 3, "total_timesteps": 10}, {"total_timesteps": 20}, "runs/a")
    {'seed': 3, 'total_timesteps': 20}
    """
    for key, value in given.items():
        if isinstance(value, dict):
            for name, each in value.items():  # pyright: ignore[reportUnknownVariableType]
                _compare(str(name), each, saved[key].get(name), folder)
        elif key not in MAY_CHANGE:
            _compare("algo" if key == "algorithm" else key, value, saved[key], folder)
    return {**saved, **{key: given[key] for key in MAY_CHANGE if key in given}}


def command(specification: Mapping[str, Any], folder: Any) -> str:
    """What to type for such a run.

    >>> settings = {"target": "td_error", "threshold": [0.1, 0.2]}
    >>> command({"env": "A-v0", "algorithm": "rcpo", "settings": settings}, "runs/a")
    'downside train A-v0 --algo rcpo --target td-error --threshold 0.1,0.2 --out runs/a'
    """
    words = ["downside", "train", str(specification["env"]), "--algo", specification["algorithm"]]
    for name, value in specification.get("settings", {}).items():
        if name in NAMED:
            words += [f"--{dashed(name)}", _written(value)]
        else:
            words += ["--option", f"{name}={value}"]
    for name, value in specification.get("env_arguments", {}).items():
        words += ["--set", f"{name}={value}"]
    for name in TOP[1:]:
        if specification.get(name) is not None:
            words += [f"--{dashed(name)}", str(specification[name])]
    return shlex.join([*words, "--out", str(folder)])


def _written(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
    return dashed(value) if value == "td_error" else str(value)


def _compare(name: str, value: Any, before: Any, folder: Any) -> None:
    if value != before:
        what = "ENV" if name == "env" else f"--{dashed(name)}"
        raise ValueError(
            f"{what} is {value}, and the run in {folder} has {before}; leave it out to go on "
            "with that run, or choose another --out"
        )


def number(option: str, text: str) -> float:
    """A number, or inf.

    >>> number("--threshold", "five")
    Traceback (most recent call last):
    ValueError: --threshold is 'five'; give a number, such as 0.5, or inf for no bound
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ValueError(f"{option} is {text!r}; give a number, such as 0.5, or inf for no bound")
    return value


def grid(option: str, text: str) -> list[float]:
    """Numbers with commas, or start:stop:count with both ends.

    >>> grid("--thresholds", "0:1:5"), grid("--thresholds", "0.1,0.3")
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.1, 0.3])
    """
    try:
        if ":" in text:
            first, last, count = text.split(":")
            start, stop, n = float(first), float(last), int(count)
            if not 2 <= n <= MOST_POINTS:
                raise ValueError(n)
            values = [(start * (n - 1 - i) + stop * i) / (n - 1) for i in range(n)]
        else:
            values = [float(part) for part in text.split(",")]
        if not all(map(math.isfinite, values)):
            raise ValueError(values)
    except ValueError:
        raise ValueError(
            f"{option} is {text!r}; give start:stop:count with a count of 2 to {MOST_POINTS}, such "
            "as 0:1:11, or numbers with commas, such as 0.1,0.3"
        ) from None
    return sorted(set(values))


def target(text: str) -> float | str:
    """A number, a name, or module:function.

    >>> target("100"), target("td-error")
    (100.0, 'td_error')
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    if text in TARGETS:
        return TARGETS[text]
    if ":" in text:
        return text
    raise ValueError(
        f"--target is {text!r}; give a number, centralised, td-error or module:function"
    )


def pairs(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Names and values out of name=value.

    >>> pairs("--set", ["is_slippery=false", "map_name=8x8", "size=3"])
    {'is_slippery': False, 'map_name': '8x8', 'size': 3}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, words = text.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{option} is {text!r}; give name=value, such as {option} size=3")
        if name in found:
            raise ValueError(f"{option} has {name} twice; give it once")
        found[name] = _value(words)
    return found


def _value(text: str) -> Any:
    """A number, a list or whatever else Python or JSON can write; otherwise the text itself."""
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def dashed(name: str) -> str:
    """As an option is typed.

    >>> dashed("num_envs")
    'num-envs'
    """
    return name.replace("_", "-")


def look_here() -> None:
    """Let module:function find your file here, as python -m has it."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)

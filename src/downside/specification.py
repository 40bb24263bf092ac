"""An agent from plain values, as JSON and TOML hold them: strict, and the same every time.

    {"env": "downside/Portfolio-v0", "env_arguments": {"discount": 0.99}, "algorithm": "nrcpo",
     "settings": {"target": "centralised", "threshold": 0.3}, "total_timesteps": 300000}

``env`` is the id of one of our environments or of any in Gymnasium, or "module:factory", a function
of your own that makes one. ``settings`` are the options of the constructor: a target is a number,
"centralised", "td_error", {"fixed": 1.0} or "module:function"; a rule for the multiplier is
{"pid": {...}}, {"ascent": {...}} or {"fixed": 2.0}.
"""

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from sys import float_info
from typing import TYPE_CHECKING, Any, cast

from downside.checks import check_choice, check_count, check_names, check_range

if TYPE_CHECKING:
    from downside.agent import Agent

DEFAULTS: dict[str, Any] = {
    "env": None,
    "env_arguments": {},
    "algorithm": "nrcpo",
    "settings": {},
    "seed": 0,
    "n_seeds": 1,
    "total_timesteps": None,
    "n_eval_episodes": None,
}
ALGORITHMS = ("nac", "rcpo", "nrcpo")
ENVIRONMENTS = {
    f"downside/{name}-v0": name for name in ("Tree", "Bandit", "Portfolio", "Consumption")
}
_BOUND = ("target", "threshold", "order", "constraints")
_OF_AGENT = ("way", "precision", "policy", "discount", "horizon", "num_envs")
_MADE = ("env", "policy", "signals", "thresholds", "direction")  # by the constructors


def completed(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a training with every key; refused if a name or a value is wrong.

    >>> bandit = {"env": "downside/Bandit-v0", "algorithm": "nac"}
    >>> completed({**bandit, "total_timesteps": 4000})["seed"]
    0
    >>> completed({**bandit, "total_timestep": 4000})
    Traceback (most recent call last):
    ValueError: there is no key 'total_timestep'; did you mean total_timesteps?
    """
    check_names("key", specification, DEFAULTS)
    whole = {**DEFAULTS, **specification}
    for key in ("env", "total_timesteps"):
        if whole[key] is None:
            raise ValueError(f"the specification has no {key}; it needs one")
    check_choice("algorithm", whole["algorithm"], ALGORITHMS)
    check_count("seed", whole["seed"], least=0)
    for key in ("n_seeds", "total_timesteps"):
        check_count(key, whole[key], least=1)
    if whole["n_eval_episodes"] is not None:
        check_count("n_eval_episodes", whole["n_eval_episodes"], least=2)
    for key in ("env_arguments", "settings"):
        if not isinstance(whole[key], Mapping):
            raise ValueError(f"{key} is {whole[key]!r}; give a table of names and values")
    check_names("setting", whole["settings"], known_settings(whole))
    make_environment(whole)
    _options(whole)
    return whole


def make_environment(specification: Mapping[str, Any]) -> Any:
    """The environment that a specification names; a Gymnasium id or a function stays one.

    >>> make_environment({"env": "downside/Bandit-v0"}).horizon
    1
    >>> make_environment({"env": "CartPole-v1"})
    'CartPole-v1'
    """
    name, arguments = str(specification["env"]), dict(specification.get("env_arguments", {}))
    if ":" in name and not name.startswith("downside/"):
        factory = load("env", name)
        try:
            made = factory(**arguments)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            raise ValueError(f"env is {name!r}, which raised {raised}") from error
        ours = importlib.import_module("downside.environments.base").Environment
        return made if isinstance(made, ours) else factory
    if name in ENVIRONMENTS:
        kind = getattr(importlib.import_module("downside.environments"), ENVIRONMENTS[name])
        check_names(f"argument of {name}", arguments, [field.name for field in fields(kind)])
        return kind(**arguments)
    if name.startswith("downside/"):
        check_names("environment", [name], ENVIRONMENTS)
    gymnasium = importlib.import_module("gymnasium")
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise ValueError(f"env is {name!r}: {error}") from error
    return name


def make_agent(specification: Mapping[str, Any], folder: str | Path | None = None) -> "Agent":
    """The agent that a specification describes, not trained yet; ``folder`` as for `NRCPO`.

    >>> from downside.specification import make_agent
    >>> make_agent({"env": "downside/Bandit-v0", "algorithm": "nac", "total_timesteps": 9}).steps
    0
    """
    whole = completed(specification)
    constructors = importlib.import_module("downside.control")
    env, options = make_environment(whole), _options(whole)
    if (isinstance(env, str) or callable(env)) and whole["env_arguments"]:
        options["env_options"] = dict(whole["env_arguments"])
    return getattr(constructors, whole["algorithm"].upper())(
        env,
        seed=whole["seed"],
        n_seeds=whole["n_seeds"],
        folder=folder,
        **options,
    )


def load(what: str, name: Any) -> Any:
    """The function that "module:function" names.

    >>> load("env", "math:hypot")(3.0, 4.0)
    5.0
    """
    module, _, attribute = str(name).partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{what} is {name!r}, and it cannot be imported ({error}); give module:function, "
            "with a module that Python finds from here"
        ) from error
    if not callable(found):
        raise ValueError(f"{what} is {name!r}, which is not a function")
    return found


def known_settings(whole: Mapping[str, Any]) -> list[str]:
    """The names of all settings that the way to learn and the algorithm have.

    >>> "threshold" in known_settings({"algorithm": "nac", "settings": {}})
    False
    """
    online = whole["settings"].get("way") == "online"
    module, kind = (
        ("downside.agents.actor_critic", "ActorCritic")
        if online
        else ("downside.training.batches", "Batches")
    )
    names = [field.name for field in fields(getattr(importlib.import_module(module), kind))]
    bound = () if whole["algorithm"] == "nac" else _BOUND
    return [*bound, *_OF_AGENT, *(name for name in names if name not in _MADE)]


def _options(whole: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the constructors take them."""
    options = {key: _number(value) for key, value in whole["settings"].items()}
    if whole["algorithm"] != "nac":
        signals = importlib.import_module("downside.signals")
        if "constraints" in options:
            options["constraints"] = [_constraint(signals, each) for each in options["constraints"]]
        elif "target" in options:
            options["target"] = _target(signals, options["target"])
        if "constraints" not in options:
            for key in ("target", "threshold"):
                if key not in options:
                    raise ValueError(f"settings have no {key}; {whole['algorithm']} needs one")
            _check_thresholds(options["threshold"])
    if "multiplier" in options:
        options["multiplier"] = _multiplier(options["multiplier"])
    for key in ("value_features", "mean_reward"):
        if isinstance(options.get(key), str):
            function = load(key, options[key])
            options[key] = function() if key == "mean_reward" else function  # which makes a model
    return options


def _constraint(signals: Any, entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        raise ValueError(f"a constraint is {entry!r}; give target, threshold and order")
    words = cast("Mapping[str, Any]", entry)
    check_names("key of a constraint", words, ("target", "threshold", "order"))
    for key in ("target", "threshold"):
        if key not in words:
            raise ValueError(f"a constraint has no {key}; it needs one")
    target = _target(signals, words["target"])
    return signals.Constraint(target, _number(words["threshold"]), words.get("order", 1))


def _target(signals: Any, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        if list(entries) == ["fixed"]:
            return signals.Fixed(float(entries["fixed"]))
    if isinstance(value, str) and ":" in value:
        return load("target", value)
    named = {"centralised": signals.Centralised, "td_error": signals.TDError}
    if isinstance(value, str) and value in named:
        return named[value]()
    choices = 'a number, {"fixed": 1.0}, "centralised", "td_error" or "module:function"'
    raise ValueError(f"target is {value!r}; give {choices}")


def _multiplier(value: Any) -> Any:
    if isinstance(value, list):
        return [_multiplier(each) for each in cast("list[Any]", value)]
    rules = importlib.import_module("downside.agents.multiplier")
    named = {"ascent": rules.Ascent, "pid": rules.PID, "fixed": rules.FixedMultiplier}
    if isinstance(value, Mapping) and len(cast("Mapping[str, Any]", value)) == 1:
        ((name, given),) = cast("Mapping[str, Any]", value).items()
        check_names("rule for the multiplier", [name], named)
        if not isinstance(given, Mapping):
            return named[name](_number(given))
        arguments = cast("Mapping[str, Any]", given)
        known = [field.name for field in fields(named[name])]
        check_names(f"argument of {name}", arguments, known)
        return named[name](**{key: _number(each) for key, each in arguments.items()})
    raise ValueError(f'multiplier is {value!r}; give {{"pid": {{}}}}, "ascent" or "fixed" so')


def _number(value: Any) -> Any:
    """JSON has no infinity; as text it has."""
    return math.inf if value == "inf" else value


def _check_thresholds(value: Any) -> None:
    for threshold in cast("list[Any]", value) if isinstance(value, list) else [value]:
        check_range("threshold", threshold, -float_info.max, math.inf, "give a number, or inf")
    if value == []:
        raise ValueError("threshold is []; give one number or more")

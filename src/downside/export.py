"""A trained policy for use elsewhere: one JSON file that people can read, NumPy alone to run it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from downside.bases import Fourier, Polynomial, Scaled
from downside.bases.layout import FromSpace
from downside.policies import Product
from downside.policies.actions import ActionMap
from downside.policies.base import Policy
from downside.policies.network import OutputPolicy
from downside.policies.plain import from_plain, to_plain

FORMAT, SCHEMA = "downside policy", 1


@dataclass(frozen=True)
class NumpyPolicy:
    """A policy with its parameters; acts without JAX.

    >>> from downside.bases import Polynomial
    >>> from downside.policies import Gibbs
    >>> policy = NumpyPolicy(Gibbs(Polynomial(1), 2), np.array([0.0, 0.0, 1.0, 5.0]))
    >>> int(policy.predict(np.array([0.3]), deterministic=True))
    1
    """

    policy: Policy
    theta: np.ndarray
    actions: ActionMap | None = None

    def predict(
        self, obs: Any, deterministic: bool = False, rng: np.random.Generator | None = None
    ) -> Any:
        """The action for one observation, or for a batch of them."""
        return act(self.policy, self.theta, self.actions, obs, deterministic, rng)

    def save(self, path: str | Path) -> None:
        """One JSON file: the policy, its parameters, and linear weights by feature names."""
        document = {
            "format": FORMAT,
            "schema": SCHEMA,
            "policy": to_plain(self.policy),
            "actions": to_plain(self.actions),
            "theta": np.asarray(self.theta, float).tolist(),
            "inputs": self.inputs(),
            "weights": self.weights(),
        }
        Path(path).write_text(json.dumps(document, indent=1))

    def weights(self) -> dict[str, dict[str, float]] | None:
        """The weight of every feature in every output, by names; None for a network.

        The outputs of a Gibbs policy are the preferences for its actions; of one for numbers, first
        what sets the centres, then what sets the widths.
        """
        parts = self.policy.policies if isinstance(self.policy, Product) else [self.policy]
        found: dict[str, dict[str, float]] = {}
        at = 0
        for i, part in enumerate(parts):
            if not isinstance(part, OutputPolicy) or part.hidden:
                return None
            names, n = part.basis.names, part.n_params
            rows = np.asarray(self.theta[at : at + n], float).reshape(part.n_outputs, len(names))
            at += n
            for j, row in enumerate(rows.tolist()):
                where = f"part {i}, output {j}" if len(parts) > 1 else f"output {j}"
                found[where] = dict(zip(names, row, strict=True))
        return found

    def inputs(self) -> dict[str, str] | None:
        """What x1, x2, ... in the names of the features are, in Python with NumPy.

        None where the names say it themselves, and for bases of the user.
        """
        parts = self.policy.policies if isinstance(self.policy, Product) else [self.policy]
        first = parts[0]
        if not isinstance(first, OutputPolicy) or not isinstance(first.basis, FromSpace):
            return None
        inner, words = first.basis.basis, first.basis.layout.words()
        if isinstance(inner, Scaled) and inner.inputs is not None:
            shift, scale = (
                np.broadcast_to(np.asarray(x, float), (len(words),))
                for x in (inner.inputs.shift, inner.inputs.divisor)
            )
            rows = zip(words, shift.tolist(), scale.tolist(), strict=True)
            words = [f"(({word}) - {a:.9g}) / {b:.9g}" for word, a, b in rows]
            inner = inner.basis
        if isinstance(inner, Fourier):
            ends = (np.asarray(end, float).tolist() for end in (inner.box.low, inner.box.high))
            rows = zip(words, *ends, strict=True)
            words = [f"clip((({word}) - {a:.9g}) / {b - a:.9g}, 0, 1)" for word, a, b in rows]
        elif isinstance(inner, Polynomial):
            ends = (np.asarray(end, float).tolist() for end in (inner.box.low, inner.box.high))
            rows = zip(words, *ends, strict=True)
            words = [
                w if np.isinf([a, b]).all() else f"clip({w}, {a:.9g}, {b:.9g})" for w, a, b in rows
            ]
        else:
            return None
        return {f"x{i + 1}": word for i, word in enumerate(words)}


def act(
    policy: Policy,
    theta: Any,
    actions: ActionMap | None,
    obs: Any,
    deterministic: bool,
    rng: np.random.Generator | None,
) -> Any:
    """The most likely action, or one that is drawn; in the words of its space."""
    obs = _arrays(obs)
    if deterministic:
        said = policy.mode(theta, obs)
    else:
        shape = np.shape(policy.baseline(obs))[:-1]
        said = policy.sample(theta, obs, policy.draw(rng or np.random.default_rng(), shape))
    return said if actions is None else actions(said)


def load_policy(path: str | Path) -> NumpyPolicy:
    """Read what `NumpyPolicy.save` wrote."""
    try:
        document: Any = json.loads(Path(path).read_text())
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("it is no policy that downside has saved")
        found = cast("dict[str, Any]", document)
        if found.get("schema") != SCHEMA:
            raise ValueError(
                f"it was written by another version of downside (schema {found.get('schema')}; "
                f"this version reads {SCHEMA})"
            )
        policy, actions = from_plain(found["policy"]), from_plain(found["actions"])
        theta = np.asarray(found["theta"], float)
        if not isinstance(policy, Policy) or theta.shape != (policy.n_params,):
            raise ValueError("its parameters do not fit its policy")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return NumpyPolicy(policy, theta, actions)


def _arrays(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _arrays(part) for key, part in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_arrays(part) for part in obs)
    return np.asarray(obs)

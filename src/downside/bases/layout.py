"""Observations of any structure as one vector; needs NumPy alone once it is made."""

from typing import Any, final

import numpy as np

from downside.arrays import array_module, as_floats
from downside.bases.base import Basis
from downside.bases.one_hot import OneHot
from downside.records import record, static


@final
@record
class Layout:
    """Where the numbers of a space stand in one vector; a choice of n takes n numbers.

    >>> from gymnasium import spaces
    >>> space = spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([3, 2])])
    >>> Layout.of(space).vector((1, np.array([2, 0]))).tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]

    ``n_axes`` is the number of axes of choices, as of a board.
    """

    kind: str = static()
    sizes: tuple[int, ...] = static(default=())
    starts: tuple[int, ...] = static(default=())
    keys: tuple[Any, ...] = static(default=())
    parts: "tuple[Layout, ...]" = static(default=())
    n_axes: int = static(default=1, later=True)

    @staticmethod
    def of(space: Any) -> "Layout":
        """The layout of a Gymnasium space."""
        from gymnasium import spaces

        if isinstance(space, spaces.Discrete):
            return Layout("choice", (int(space.n),), (int(space.start),))
        if isinstance(space, spaces.MultiDiscrete):
            starts = np.broadcast_to(space.start, space.nvec.shape)
            return Layout(
                "choices",
                tuple(space.nvec.ravel().tolist()),
                tuple(starts.ravel().tolist()),
                n_axes=space.nvec.ndim,
            )
        if isinstance(space, spaces.Dict | spaces.Tuple):
            pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space)
            keys, parts = zip(*((key, Layout.of(part)) for key, part in pairs), strict=True)
            return Layout("parts", keys=keys, parts=parts)
        if isinstance(space, spaces.Box | spaces.MultiBinary):
            return Layout("numbers", space.shape)
        raise ValueError(
            f"there is no default basis for the space {space}; wrap the environment so that it "
            "observes a Box, Discrete, MultiDiscrete, MultiBinary, Tuple or Dict"
        )

    @property
    def size(self) -> int:
        """The length of the vector."""
        if self.kind == "parts":
            return sum(part.size for part in self.parts)
        return int(np.prod(self.sizes, dtype=int) if self.kind == "numbers" else sum(self.sizes))

    def words(self, name: str = "obs") -> list[str]:
        """What each number of the vector is, in Python.

        >>> from gymnasium import spaces
        >>> Layout.of(spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0.0, 1.0, (1,)))).words()
        ["obs['a'] == 0", "obs['a'] == 1", "obs['b'][0]"]
        """
        if self.kind == "parts":
            pairs = zip(self.keys, self.parts, strict=True)
            return [word for key, part in pairs for word in part.words(f"{name}[{key!r}]")]
        if self.kind == "numbers":
            places = np.ndindex(*self.sizes)
            return [f"{name}[{', '.join(map(str, at))}]" if at else name for at in places]
        if self.kind == "choice":
            return [f"{name} == {self.starts[0] + k}" for k in range(self.sizes[0])]
        where = [
            f"{name}[{i}]" if self.n_axes == 1 else f"{name}.ravel()[{i}]"
            for i in range(len(self.sizes))
        ]
        rows = zip(where, self.sizes, self.starts, strict=True)
        return [f"{at} == {start + k}" for at, n, start in rows for k in range(n)]

    def vector(self, obs: Any) -> Any:
        """One observation, or a batch with a leading axis, as vectors (..., size)."""
        if self.kind == "parts":
            pieces = [
                part.vector(obs[key]) for key, part in zip(self.keys, self.parts, strict=True)
            ]
            return array_module(*pieces).concatenate(pieces, axis=-1)
        xp = array_module(obs)
        numbers = as_floats(obs, xp)
        if self.kind == "numbers":
            return numbers.reshape(*numbers.shape[: numbers.ndim - len(self.sizes)], self.size)
        if self.kind == "choice":
            return OneHot(self.sizes[0])(numbers - self.starts[0])
        flat = numbers.reshape(*numbers.shape[: numbers.ndim - self.n_axes], len(self.sizes))
        pairs = enumerate(zip(self.sizes, self.starts, strict=True))
        pieces = [OneHot(n)(flat[..., i] - start) for i, (n, start) in pairs]
        return xp.concatenate(pieces, axis=-1)


@final
@record
class FromSpace(Basis):
    """A basis of the observations of a Gymnasium space, whatever their structure.

    >>> from gymnasium import spaces
    >>> states = FromSpace(Layout.of(spaces.Discrete(3, start=1)), OneHot(3))
    >>> states(np.array(1)).tolist()
    [1.0, 0.0, 0.0]
    """

    layout: Layout
    basis: Basis

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the basis."""
        return self.basis.names

    @property
    def constant(self) -> np.ndarray | None:
        """That of the basis."""
        return self.basis.constant

    def __call__(self, obs: Any) -> Any:
        """Lay out, then map."""
        return self.basis(self._inputs(obs))

    def outside(self, obs: Any) -> Any:
        """What the basis clips."""
        return self.basis.outside(self._inputs(obs))

    def _inputs(self, obs: Any) -> Any:
        if isinstance(self.basis, OneHot):
            return as_floats(obs, array_module(obs)) - self.layout.starts[0]
        return self.layout.vector(obs)

"""Actions of many coordinates, whose minima are listed and not scanned for along a line."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, NoReturn

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action.base import Action, Array, Averages, Jet, Point


class Branch(NamedTuple):
    """A minimum.

    Attributes
    ----------
    start : where its search began, by the action's own count; NaN for none
    values : its numbers by name, as :class:`phasekit.theory.minima.Minima` has them: action, coordinates,
        order_parameters, averages, copying_share, coverage, loss, gradient_norm, curvature (the lowest), positions
    """

    start: float
    values: dict[str, Any]


class Listed(Action):
    """An action that is no function of a few coordinates: what needs one is refused."""

    order_parameters: ClassVar[tuple[str, str]] = ("a1", "aG")

    @abstractmethod
    def branches(self, p: Parameters) -> list[Branch]:
        """Return the minima of one model (0-d parameters), lowest first."""

    @abstractmethod
    def lowest(self, p: Parameters) -> dict[str, Any]:
        """Return the values of the global minimum of one model."""

    @abstractmethod
    def from_end(self, p: Parameters, copying: bool) -> float:
        """Return the copy overlap g where a descent from copying, or from attention spread evenly, ends."""

    def physical(self, z: Point, p: Parameters) -> Point:
        self._refuse(p)

    def jet(self, z: Point, p: Parameters) -> Jet:
        self._refuse(p)

    def loss(self, z: Point, p: Parameters) -> Array:
        self._refuse(p)

    def averages(self, z: Point, p: Parameters) -> Averages:
        self._refuse(p)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        self._refuse(p)

    def _refuse(self, p: Parameters) -> NoReturn:
        field, word = ("mask", p.setting.mask) if p.setting.mask.hides else ("encoding", p.setting.encoding)
        raise InputError(field, word.name, "has states of many numbers, and this needs an action of a few")

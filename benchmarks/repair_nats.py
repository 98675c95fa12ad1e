r"""The divergence of repaired posteriors from exact ones, where densities of draws are known.

The density of repaired draws, given the held-out ones, is that of the draws at the point that is
moved to a point, over the Jacobian of the move, times the probability of keeping over its mean:

.. math:: q'(\theta) = q(T^{-1} \theta)\, |T'|^{-1}\, \frac{a(\theta)}{E_{q_T} a} .

With :math:`r = q'/p`, and because the mean of min(r, 2) under p is that of min(1, 2/r) under q',

.. math:: \mathrm{KL}(p \,\|\, q') = E_p\left[\min(r, 2) - \log r\right] - E_{q'} \min(1, 2 / r) ,

whose terms vary much less from truth to truth than log r does, since their slope at r = 1 is zero.
"""

from dataclasses import dataclass

import numpy as np

from tarpon._base.types import Floats
from tarpon.mending.fitting import Map
from tarpon.mending.whitening import Frame, along
from tarpon.problems._zoo import _planted
from tarpon.problems._zoo.study import Densities, Study

N_SIMS = {2: 1000, 10: 400}
N_DRAWS = 100  # by which the mean of the acceptance is estimated


def divergence(the_map: Map, *, flaw: str, n_dims: int, rng: int) -> float:
    """Return the mean divergence of the exact posterior from the repaired one, in nats."""
    n_draws = the_map.n_held + N_DRAWS
    study, densities = _planted(flaw, N_SIMS[n_dims], n_draws, n_dims, rng)
    held_out, draws = np.split(study.mean + study.sd * study.draws, [the_map.n_held])
    frame = the_map.whitening(held_out, study.x)
    scaled = [frame.scaled(points) for points in (held_out, draws)]
    if the_map.move is not None:
        scaled = [the_map.move(frame, points) for points in scaled]
    repaired = _Repaired(the_map, frame, scaled[0], study, densities)
    accepted = repaired.log_accepted(scaled[1])
    mean = np.log(np.exp(accepted).mean(axis=0))
    truths = frame.scaled(study.mean + study.sd * study.truths)
    of_truths = repaired.log_ratio(truths) + repaired.log_accepted(truths) - mean
    of_draws = repaired.log_ratio(scaled[1]) + accepted - mean
    less = np.exp(accepted - mean) * np.exp(np.minimum(np.log(2) - of_draws, 0))
    terms = np.exp(np.minimum(of_truths, np.log(2))) - of_truths - less.mean(axis=0)
    return round(float(terms.mean()), 6)


@dataclass(frozen=True, eq=False)
class _Repaired:
    """Densities of repaired posteriors, at points in units of the frame."""

    the_map: Map
    frame: Frame
    held_out: Floats
    study: Study
    densities: Densities

    def log_accepted(self, points: Floats) -> Floats:
        """Return logarithms of the probability of keeping."""
        if self.the_map.keep is None:
            return np.zeros(points.shape[:-1])
        both = (self.the_map.terms(self.frame, some) for some in (self.held_out, points))
        return np.log(self.the_map.keep.probabilities(*both))

    def log_ratio(self, points: Floats) -> Floats:
        """Return logarithms of the density of moved draws over that of the exact posterior."""
        move, roots, before, log_jacobian = self.the_map.move, self.frame.root, points, 0.0
        if move is not None:
            before = along(roots, move.whitened(self.frame, points))
            log_jacobian = np.log(move.at(self.frame)[1]).sum(axis=-1)
            log_jacobian += _log_det(move.root(self.frame)) - _log_det(roots)
        exact, estimated = self.densities.exact, self.densities.estimator
        density = estimated(self._z(before)) - self.densities.log_norm - log_jacobian
        return density - exact(self._z(points))

    def _z(self, points: Floats) -> Floats:
        theta = self.frame.mean + self.frame.sd * points
        return (theta - self.study.mean) / self.study.sd


def _log_det(roots: Floats) -> Floats:
    return np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)

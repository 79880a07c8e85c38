r"""What no method can do: the least cost that one answer of each user leaves, under pure epsilon.

**The model.** User i holds x = theta_L + w g: group L has the share pi_L, g is standard Gaussian
in d columns, and all groups have one width w. The server knows shares and width. Each user gives
one epsilon-LDP answer y with probability q(y|x); the way of asking may follow from public coins and
from the answers of earlier users (Duchi, Jordan, Wainwright 2018: sequentially interactive).

**1. One answer.** Let phi_j = sqrt(pi_j) theta_j, and S(x, L) the score about phi of a user whose
group is known: block L is g/(w sqrt(pi_L)), the others are 0. The score of y is E[S | y] = E[S Z],
Z = q(y|x)/P(y), with E Z = 1 and a <= Z <= a e^epsilon for some a. That y does not know L only adds
to what holds: a channel from x is one from (x, L). Take a unit vector u: <u, S> = s_L h/w, where h
is standard Gaussian, s_j = |u_j|/sqrt(pi_j), and E s_L^2 = 1. For given a the expectation is linear
in Z, so the best Z has two values, a on a set and a e^epsilon on its complement A. With p = P(A)
and E = e^epsilon - 1, a = 1/(1 + p E), and as E S = 0,

    <u, E[S|y]> = E/(1 + p E) E[<u, S>; A].

With p_j = P(A | j), E[h; A | j] <= f(p_j), f(p) = density of h at its upper p-quantile. By Cauchy
and Schwarz, E[<u, S>; A]^2 w^2 <= sum_j pi_j s_j^2 sum_j pi_j f(p_j)^2 <= F(p), F the least concave
function above f^2. As (f^2)'' = 2 z^2 - 2 at p = P(h > z), F = f^2 where z is small, and for small
p it is a line through 0, which touches f^2 where f(p) = 2 z p: at z = .6120, p = .2703. So
**every** answer has |E[S|y]|^2 <= c(epsilon)/w^2, c = max_p E^2 F(p)/(1 + p E)^2. Its derivative is
zero at z = E (f - z p), where c = z^2, if z <= .6120 (epsilon <= 1.548); beyond, c = z^2 p E with
.6120 and .2703. The trace of the Fisher information of an answer is the mean of |E[S|y]|^2; it is
also at most that of (x, L), k d/w^2. (Barnes, Chen, Ozgur 2020 bound this trace by the variance of
<u, S>, here sinh^2(epsilon/2)/w^2, and by its tails; c is the exact maximum for Gaussian scores,
.158 instead of .272 at epsilon = 1.) One bit that tells the side of <u, S> for a random u has
(2/pi) tanh^2(epsilon/2), .136: near known centres little is lost.

**2. All answers.** Information adds up over answers, given those before: its trace is at most
n c/w^2. By the inequality of van Trees (Gill, Levit 1995), with a prior of density cos^2 on each of
the k d coordinates of phi, within b w/sqrt(k) of a known place (information k pi^2/(b w)^2), every
estimator has

    sum_j pi_j E|theta_j^ - theta_j|^2 >= (k d)^2 w^2/(n c + k^2 d pi^2/b^2).

**3. Cost.** Where rows stay with their groups, that sum is by what the cost of one row exceeds
d w^2: as a share of it, e = 1/(n c/(k^2 d) + pi^2/b^2). The best centres of the rows themselves,
their means, have k/n in its place. So by the triangle inequality a run costs at least the share
(sqrt(e) - sqrt(k/n))^2 more than these (where groups have their n pi_j rows).

**What it does not say.** It is about centres that are known to within b widths beforehand: to find
groups at all may take more users. It holds on average over centres within that distance, so for
some of them; a guess may be lucky. Groups that overlap, or differ in width, are not covered, nor
delta > 0, nor users who are asked more than once. Behind a shuffler it holds with the epsilon of
one message.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import ndtr

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Count, Epsilon, Positive


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


_TOUCH = brentq(lambda z: _density(z) - 2 * z * ndtr(-z), 0.0, 2.0)
"""Where a line through 0 touches f^2: z = .6120, p = .2703."""
_RARE = float(ndtr(-_TOUCH))


@checked
def answer_information(epsilon: Epsilon) -> float:
    """c(epsilon): the most that one epsilon-LDP answer says about all centres together.

    It is the trace of the Fisher information, for groups of width 1 whose centres are measured in
    units of 1/sqrt(share): step 1 of the module. About (2/pi) tanh^2(epsilon/2) for small epsilon,
    0.1012 (e^epsilon - 1) from 1.55 on.
    """
    odds = math.expm1(min(epsilon, 700.0))
    if odds * _RARE >= 1:
        return _TOUCH**2 * _RARE * odds
    z = brentq(lambda z: odds * (_density(z) - z * ndtr(-z)) - z, 0.0, 2 * _TOUCH, xtol=1e-300)
    return float(z) ** 2


@checked
def least_excess(
    n_users: Count, epsilon: Epsilon, n_features: Count, *, n_clusters: Count,
    within: Positive = 2.0,
) -> float:  # fmt: skip
    """The least expected cost above that of k-means on the same rows, as a share of the latter.

    For round groups of one width that do not overlap, whatever the method: steps 2 and 3 of the
    module, which says what is not covered.

    Parameters
    ----------
    n_users : int
        One answer each.
    epsilon : float
        Of an answer, pure; behind a shuffler the local one.
    n_features, n_clusters : int
    within : float
        What is known beforehand: each coordinate of a centre to this many widths (standard
        deviations of a group), more for small groups, less for large ones.
    """
    k, d = n_clusters, n_features
    said = n_users * min(answer_information(epsilon), k * d) / (k * k * d)
    error = 1 / (said + (math.pi / within) ** 2)
    return max(0.0, math.sqrt(error) - math.sqrt(k / n_users)) ** 2

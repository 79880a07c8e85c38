"""What can be imported from the top, for type checkers: at run time it is found when asked for."""

from fedclust.estimators import FastLloydKMeans as FastLloydKMeans
from fedclust.estimators import FedDPKMeans as FedDPKMeans
from fedclust.estimators import LocalKMeans as LocalKMeans
from fedclust.estimators import PrivateKMeans as PrivateKMeans
from fedclust.estimators import RRCluster as RRCluster
from fedclust.estimators import from_copies as from_copies
from fedclust.estimators import load as load
from fedclust.estimators import private_bounds as private_bounds
from fedclust.estimators import private_summary as private_summary
from fedclust_helpers import __version__ as __version__

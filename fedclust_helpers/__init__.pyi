"""What can be imported from the top, for type checkers: at run time it is found when asked for."""

from fedclust_helpers.estimators import FastLloydKMeans as FastLloydKMeans
from fedclust_helpers.estimators import FedDPKMeans as FedDPKMeans
from fedclust_helpers.estimators import LocalKMeans as LocalKMeans
from fedclust_helpers.estimators import PrivateKMeans as PrivateKMeans
from fedclust_helpers.estimators import RRCluster as RRCluster
from fedclust_helpers.estimators import load as load

__version__: str

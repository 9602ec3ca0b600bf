"""Training dynamics: methods are plain objects, `train` runs them, a `Trajectory` says why it
ended."""

from keytokens.dynamics.methods import GradientDescent as GradientDescent
from keytokens.dynamics.methods import GradientFlow as GradientFlow
from keytokens.dynamics.methods import MirrorDescent as MirrorDescent
from keytokens.dynamics.methods import NormalizedDescent as NormalizedDescent
from keytokens.dynamics.methods import PolyakDescent as PolyakDescent
from keytokens.dynamics.methods import RegularizationPath as RegularizationPath
from keytokens.dynamics.training import train as train
from keytokens.dynamics.trajectory import Reason as Reason
from keytokens.dynamics.trajectory import Trajectory as Trajectory

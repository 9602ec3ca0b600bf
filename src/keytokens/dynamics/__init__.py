"""Training dynamics: methods are plain objects, `train` runs them, a `Trajectory` says why it
ended."""

from keytokens.dynamics.methods import GradientFlow as GradientFlow
from keytokens.dynamics.methods import RegularizationPath as RegularizationPath
from keytokens.dynamics.steps import GradientDescent as GradientDescent
from keytokens.dynamics.steps import MirrorDescent as MirrorDescent
from keytokens.dynamics.steps import NormalizedDescent as NormalizedDescent
from keytokens.dynamics.steps import PolyakDescent as PolyakDescent
from keytokens.dynamics.steps import StepRule as StepRule
from keytokens.dynamics.training import train as train
from keytokens.dynamics.trajectory import Reason as Reason
from keytokens.dynamics.trajectory import Trajectory as Trajectory

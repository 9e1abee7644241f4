"""The inputs that theorems share, and the ranges in which they are verified."""

from phasekit.saturation.domain import Variable

#: Softmax depends on λz only, and beyond λz of about 40 its bounds are equalities to all digits: few rows go there.
SOFTMAX_Z = Variable("z", "logits", 1e-2, 10.0)
SOFTMAX_LAM = Variable("λ", "positive", 1e-3, 5.0, far=1e3)
SOFTMAX_OTHERS = Variable("z_j", "logits", 1e-2, 10.0, far=1e3)
SOFTMAX_GAP = Variable("Δ", "positive", 1e-3, 30.0, far=1e4)

Z = Variable("z", "logits", 1e-2, 1e3)
LAM = Variable("λ", "positive", 1e-3, 1e5)
FACTOR = Variable("λ'/λ", "positive", 1.0, 1e5)
N = Variable("n", "positive", 0.3, 5.0)
N_FROM_ONE = Variable("n", "positive", 1.0, 5.0)
B = Variable("b", "positive", 1e-2, 30.0)
OTHERS = Variable("z_j", "logits", 1e-2, 1e3)
C = Variable("c", "logit", 1e-2, 1e3)
GAP = Variable("Δ", "positive", 1e-3, 1e4)
LARGE_GAP = Variable("Δ", "positive", 1.0, 1e6)

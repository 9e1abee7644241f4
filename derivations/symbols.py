"""The symbols that all derivations share, named as in docs/theory.md and in the generated code."""

import sympy as sp

#: Number of training sequences, vocabulary size, context length.
P, V, L = sp.symbols("P V L", positive=True)
#: Prior standard deviations of W and G, and the temperature (ridge) of the likelihood.
sigma_w, sigma_g, kappa = sp.symbols("sigma_w sigma_g kappa", positive=True)
#: Cost λ of the uniform pattern: λ s²/(2σ_g²).
lam = sp.Symbol("lam", positive=True)
#: Strength of the data against the prior of W: t = P σ_w²/(κV).
t = sp.Symbol("t", positive=True)

#: The four averages of an attention matrix: row sum, squared row sum, copy overlap, squared norm.
s, s2, g, q = sp.symbols("s s2 g q", real=True)
#: Order parameters of linear attention, and the logit gap Δ of softmax attention.
c1, cG = sp.symbols("c1 cG", real=True)
gap = sp.Symbol("gap", real=True)

#: Squared ratio x = (P σ_w σ_g/(κV))² of data to prior, in the Landau expansion.
x = sp.Symbol("x", positive=True)
#: Gap at the upper minimum when both minima have the same action.
D = sp.Symbol("D", positive=True)

#: What t stands for.
T = P * sigma_w**2 / (kappa * V)

#: What x stands for.
X = (P * sigma_w * sigma_g / (kappa * V)) ** 2

#: How the symbols look in LaTeX.
LATEX = {
    sigma_w: r"\sigma_w",
    sigma_g: r"\sigma_g",
    kappa: r"\kappa",
    lam: r"\lambda",
    s2: "s_2",
    c1: "c_1",
    cG: "c_G",
    gap: r"\Delta",
}

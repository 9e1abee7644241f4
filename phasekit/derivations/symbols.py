"""The symbols that all derivations share, named as in docs/theory.md and in the generated code."""

import sympy as sp

#: Number of training sequences, vocabulary size, context length.
P, V, L = sp.symbols("P V L", positive=True)
#: Prior standard deviations of W and G, and the temperature (ridge) of the likelihood.
sigma_w, sigma_g, kappa = sp.symbols("sigma_w sigma_g kappa", positive=True)
#: Cost λ of the uniform pattern: λ s²/(2σ_g²).
lam = sp.Symbol("lam", positive=True)

#: The four averages of an attention matrix: row sum, squared row sum, copy overlap, squared norm.
s, s2, g, q = sp.symbols("s s2 g q", real=True)
#: Order parameters of linear attention, and the logit gap Δ of softmax attention.
c1, cG = sp.symbols("c1 cG", real=True)
gap = sp.Symbol("gap", real=True)
#: Gap at the upper minimum of softmax attention when both minima have the same action.
D = sp.Symbol("D", positive=True)

#: Strength of the data against the prior of W, and what it stands for.
t = sp.Symbol("t", positive=True)
T = P * sigma_w**2 / (kappa * V)
#: Squared ratio of data to prior in the Landau expansion, and what it stands for.
x = sp.Symbol("x", positive=True)
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
#: Symbols whose name in the code is written out, as they look on a terminal.
GREEK = {lam: sp.Symbol("lambda"), gap: sp.Symbol("Delta")}


def named(text: str, latex: str) -> sp.Symbol:
    """Return a symbol for the left-hand side of a displayed equation, with its LaTeX form."""
    symbol = sp.Symbol(text)
    LATEX[symbol] = latex
    return symbol

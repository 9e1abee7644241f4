"""What every score promises, whatever its formula."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp
import torch

from phasekit.errors import InputError
from phasekit.scores import get_score, names

SCORES = {
    **{name: get_score(name) for name in names()},
    "ssa, n=2, b=3": get_score("ssa", n=2.0, b=3.0),
    "temperature 0.3": get_score("temperature", T=0.3),
    "entmax 1": get_score("entmax", alpha=1.0),
    "entmax 1.3": get_score("entmax", alpha=1.3),
    "entmax 2": get_score("entmax", alpha=2.0),
    "softmax, sparsemax and linear": get_score("mixture", scores="softmax,sparsemax,linear", shares="0.5,0.25,0.25"),
    "heads of entmax and sa-softmax": get_score("per-head", scores=["entmax", "sa-softmax"]),
}
WITH_EXTREMES = {
    **SCORES,
    "entmax 1.00001": get_score("entmax", alpha=1.00001),
    "entmax 12": get_score("entmax", alpha=12.0),
}
ON_LOGITS = [name for name, score in SCORES.items() if score.uses_logits]
WITH_ROWS = [name for name in ON_LOGITS if not name.startswith(("per-head", "heads"))]
HEADS, QUERIES, KEYS, DIM = 3, 5, 7, 4

# What torch itself does on its first use of forward mode.
forward_mode = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def attend(score, seed=0, dtype=torch.float64, mask=None, parameters=None, keys=KEYS, grad=False):
    """Weights of a random layer, and the queries and keys they come from."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(2, HEADS, QUERIES, DIM, generator=generator, dtype=torch.float64)
    k = torch.randn(2, HEADS, KEYS, DIM, generator=generator, dtype=torch.float64)[..., :keys, :]
    q, k = (x.to(dtype).requires_grad_(grad) for x in (q, k))
    return score.attention_weights(q, k, mask=mask, parameters=parameters), q, k


def logits(seed=0, dtype=torch.float64, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(2, HEADS, QUERIES, KEYS, generator=generator, dtype=torch.float64)).to(dtype)


def random_mask(seed=0):
    """True: may attend. The second query sees nothing, the third one key."""
    keep = torch.rand(QUERIES, KEYS, generator=torch.Generator().manual_seed(seed)) > 0.4
    keep[1] = False
    keep[2] = torch.arange(KEYS) == 3
    keep[3, 0] = True
    return keep


@pytest.mark.parametrize("name", SCORES)
def test_description_is_json_and_gives_the_score_back(name):
    score = SCORES[name]
    assert get_score(json.loads(json.dumps(score.describe()))) == score
    assert hash(score) == hash(get_score(score.describe()))


@pytest.mark.parametrize("name", SCORES)
def test_rows_sum_to_one_if_it_says_so(name):
    score = SCORES[name]
    weights, _, _ = attend(score)
    sums = weights.sum(-1)
    if score.name == "cosformer":  # queries and keys that don't overlap anywhere
        sums = sums[sums != 0]
    assert torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-12) == score.normalised


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("shape", [(QUERIES, KEYS), (2, 1, 1, KEYS), (HEADS, QUERIES, KEYS), (2, HEADS, QUERIES, KEYS)])
def test_a_mask_removes_keys(name, shape):
    """A row under a mask is the row of the visible keys alone."""
    score = SCORES[name]
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(5)) > 0.4
    mask[..., 0] = True
    weights, q, k = attend(score, mask=mask)
    full = mask.expand(weights.shape)
    assert (weights[~full] == 0).all()
    for index in [(0, 0, 0), (0, 1, 4), (1, 2, 3)]:
        batch, head, query = index
        visible = full[index].nonzero()[:, 0]
        if score.name == "cosformer":  # positions matter: compare with the unnormalised row instead
            raw = score.attention_weights(q, k)[index] * full[index]
            expected = raw[visible] / (raw.sum() or 1)
        else:
            expected = score.attention_weights(q[batch, :, query : query + 1], k[batch][:, visible])[head, 0]
        assert torch.allclose(weights[index][visible], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", SCORES)
def test_additive_masks_that_exclude_equal_boolean_ones(name, dtype):
    score, keep = SCORES[name], random_mask()
    expected, _, _ = attend(score, mask=keep, dtype=dtype)
    for lowest in (-torch.inf, torch.finfo(dtype).min):
        additive = torch.zeros(QUERIES, KEYS, dtype=dtype).masked_fill(~keep, lowest)
        weights, _, _ = attend(score, mask=additive, dtype=dtype)
        assert torch.equal(weights, expected)
    assert expected.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("name", WITH_EXTREMES)
def test_additive_masks_of_any_size_hide_as_boolean_ones_do(name, learned, dtype):
    """Values and gradients; a row that sees nothing has no NaN, whatever the numbers that hide its keys."""
    score, keep = WITH_EXTREMES[name], random_mask()
    if learned and name == "entmax 1":
        pytest.skip("starts at its bound")
    parameters = score.make_parameters(HEADS)() if learned else None
    parameters = parameters and {key: value.detach().requires_grad_() for key, value in parameters.items()}
    seen = keep.any(dim=-1, keepdim=True)

    def run(mask):
        weights, q, k = attend(score, mask=mask, parameters=parameters, dtype=dtype, grad=True)
        upstream = torch.randn(weights.shape, generator=torch.Generator().manual_seed(7)).to(dtype)
        added = [mask] if mask.requires_grad else []
        wanted = [q, k, *(parameters or {}).values(), *added]
        found = torch.autograd.grad(weights, wanted, upstream * seen, allow_unused=True)
        found = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
        return (weights * seen, *found[: len(found) - len(added)]), (weights, *found)

    expected, _ = run(keep)
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-6} if dtype in (torch.float64, torch.float32) else {"rtol": 0.02, "atol": 0.02}
    )
    for mask_dtype in {dtype, torch.float32 if dtype == torch.float64 else torch.float64}:
        lowest = torch.finfo(mask_dtype).min
        for number in (-1e4, -1e9, -1e30, -1e300, lowest * 0.4, lowest * 0.6, lowest, -torch.inf):
            if lowest <= number or number == -torch.inf:
                mask = torch.zeros(QUERIES, KEYS, dtype=mask_dtype).masked_fill(~keep, number).requires_grad_()
                found, everything = run(mask)
                assert all(part.isfinite().all() for part in everything), (mask_dtype, number)
                for got, want in zip(found, expected, strict=True):
                    torch.testing.assert_close(got, want, **tolerance)


@pytest.mark.parametrize("name", SCORES)
def test_additive_masks_of_other_numbers(name):
    score = SCORES[name]
    bias = torch.randn(HEADS, QUERIES, KEYS, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    parts = getattr(score, "scores", (score,))
    if any(part.name in ("linear", "cosformer") for part in parts):
        with pytest.raises(InputError, match="boolean masks"):
            attend(score, mask=bias)
        return
    z = logits()
    weights = score.rows(z, bias)
    if score.name in ("softmax", "sparsemax", "entmax"):  # a bias is one more logit
        assert torch.allclose(weights, score.rows(z + bias), rtol=0, atol=1e-12)
    elif score.name in ("ssa", "temperature"):  # behind the transform: weights change by the factor exp(bias)
        expected = score.rows(z) * bias.exp()
        assert torch.allclose(weights, expected / expected.sum(-1, keepdim=True), rtol=0, atol=1e-12)
    elif score.name == "sa-softmax":
        assert torch.allclose(weights, z * (z + bias).softmax(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ON_LOGITS)
def test_gradient_of_an_additive_mask(name):
    score = SCORES[name]
    if any(part.name == "linear" for part in getattr(score, "scores", (score,))):
        pytest.skip("refuses additive masks")
    z, keep = logits(), random_mask()
    bias = torch.randn(HEADS, 1, KEYS, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda bias: score.rows(z, bias.masked_fill(~keep, -torch.inf)), bias)


@pytest.mark.parametrize("name", SCORES)
def test_blind_rows_are_zero_with_zero_gradients(name):
    score = SCORES[name]
    weights, q, k = attend(score, mask=random_mask(), grad=True)
    assert (weights[..., 1, :] == 0).all()
    weights[..., 1, :].sum().backward()
    assert (q.grad == 0).all()
    assert (k.grad == 0).all()
    nothing, q, k = attend(score, mask=torch.zeros(1, 1, dtype=torch.bool), grad=True)
    nothing.sum().backward()
    assert (nothing == 0).all()
    assert (q.grad == 0).all()


@pytest.mark.parametrize("name", SCORES)
def test_a_single_key(name):
    score = SCORES[name]
    weights, q, k = attend(score, keys=1, grad=True)
    assert weights.isfinite().all()
    if score.normalised and score.name != "cosformer":
        assert torch.allclose(weights, torch.ones_like(weights), rtol=0, atol=1e-15)
    weights.sum().backward()
    assert q.grad.isfinite().all()
    assert k.grad.isfinite().all()


@pytest.mark.parametrize("name", SCORES)
def test_masks_that_make_no_sense_are_refused(name):
    with pytest.raises(InputError, match="broadcast"):
        attend(SCORES[name], mask=torch.ones(QUERIES, KEYS + 1, dtype=torch.bool))
    with pytest.raises(InputError, match="boolean"):
        attend(SCORES[name], mask=torch.ones(QUERIES, KEYS, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", SCORES)
def test_reduced_precision(name, dtype):
    """Computed in float32 and rounded once: within a few units of the last place of the same input in float64."""
    score = SCORES[name]
    weights, q, k = attend(score, dtype=dtype, grad=True)
    weights.square().sum().backward()
    exact_q, exact_k = (x.detach().double().requires_grad_() for x in (q, k))
    exact = score.attention_weights(exact_q, exact_k)
    exact.square().sum().backward()
    assert weights.dtype == q.grad.dtype == dtype
    unit = torch.finfo(dtype).eps
    # Logits are rounded too (q·k comes in ``dtype``), which moves weights by |logit|·unit; logits reach 5 here.
    assert (weights.double() - exact).abs().max() < 12 * unit
    assert (q.grad.double() - exact_q.grad).abs().max() < 40 * unit


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ON_LOGITS)
def test_reduced_precision_rounds_once(name, dtype):
    """Given the same logits, weights are those of float64 rounded to ``dtype``, whatever happens in between."""
    z = logits(dtype=dtype, scale=4.0)
    weights, exact = SCORES[name].rows(z).double(), SCORES[name].rows(z.double())
    half_a_unit = torch.finfo(dtype).eps / 2
    assert ((weights - exact).abs() <= 1.01 * half_a_unit * exact.abs() + 3e-6).all()


@pytest.mark.parametrize("name", ON_LOGITS)
@pytest.mark.parametrize("masked", [False, True])
def test_pull_back_is_the_gradient(name, masked):
    score, z, mask = SCORES[name], logits().requires_grad_(), random_mask() if masked else None
    weights = score.rows(z, mask)
    upstream = torch.randn(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (expected,) = torch.autograd.grad(weights, z, upstream)
    assert torch.allclose(score.pull_back(z.detach(), weights.detach(), upstream, mask), expected, rtol=0, atol=1e-13)


@pytest.mark.slow
@forward_mode
@pytest.mark.parametrize("name", ON_LOGITS)
def test_gradients_of_both_orders(name):
    score, keep = SCORES[name], random_mask()
    z, keep = logits()[:1, :2, 1:4, :5].clone().requires_grad_(), keep[1:4, :5]
    assert torch.autograd.gradcheck(lambda z: score.rows(z, keep), z, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda z: score.rows(z, keep), z)


@forward_mode
def test_gradients_of_cosformer():
    generator = torch.Generator().manual_seed(3)
    q, k = (torch.randn(2, n, DIM, dtype=torch.float64, generator=generator).requires_grad_() for n in (3, 4))
    keep = torch.ones(3, 4, dtype=torch.bool).tril()
    function = lambda q, k: get_score("cosformer").attention_weights(q, k, mask=keep)  # noqa: E731
    assert torch.autograd.gradcheck(function, (q, k), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (q, k))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in ON_LOGITS if SCORES[name].learnable or "scores" in SCORES[name].describe()]
)
def test_learned_parameters(name):
    """They start at the fields' values, every one gets a gradient, every one changes the output, in its own head."""
    score = SCORES[name]
    if name == "entmax 1":
        with pytest.raises(InputError, match="must start above 1"):
            score.make_parameters(HEADS)
        return
    module = score.make_parameters(HEADS).double()
    z, keep = logits().requires_grad_(), random_mask()
    assert torch.allclose(score.rows(z, keep, module()), score.rows(z, keep), rtol=0, atol=1e-7)
    weights = score.rows(z, keep, module())
    generator = torch.Generator().manual_seed(4)
    upstream = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
    gradients = torch.autograd.grad(weights, (z, *module.parameters()), upstream)
    assert all((gradient != 0).any() for gradient in gradients)
    assert torch.allclose(
        score.pull_back(z.detach(), weights.detach(), upstream, keep, module()), gradients[0], rtol=0, atol=1e-13
    )
    for parameter, gradient in zip(module.parameters(), gradients[1:], strict=True):
        with torch.no_grad():
            parameter.view(-1)[0] += 0.3  # in the first head of the component, or of all
        changed = (score.rows(z, keep, module()) - weights).abs().amax(dim=(0, 2, 3)) > 1e-4
        assert changed.sum() == 1
        assert gradient.view(-1)[0] != 0
        with torch.no_grad():
            parameter.view(-1)[0] -= 0.3
    values = {key: value.detach().requires_grad_() for key, value in module().items()}
    assert torch.autograd.gradcheck(
        lambda *given: score.rows(z.detach(), keep, dict(zip(values, given, strict=True))), tuple(values.values())
    )


@pytest.mark.parametrize("name", ON_LOGITS)
def test_vmap_is_a_loop(name):
    score, keep = SCORES[name], random_mask()
    batch = torch.stack([logits(seed) for seed in range(4)])
    rows = torch.func.vmap(lambda z: score.rows(z, keep))(batch)
    assert torch.allclose(rows, torch.stack([score.rows(z, keep) for z in batch]), rtol=0, atol=1e-15)
    gradient = torch.func.grad(lambda z: score.rows(z, keep).square().sum())
    expected = torch.stack([gradient(z) for z in batch])
    assert torch.allclose(torch.func.vmap(gradient, out_dims=1)(batch).movedim(1, 0), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", SCORES)
def test_strides_do_not_matter(name):
    score = SCORES[name]
    weights, q, k = attend(score)
    strided = [x.movedim(1, -1).contiguous().movedim(-1, 1) for x in (q, k)]
    assert not strided[0].is_contiguous()
    assert torch.allclose(score.attention_weights(*strided), weights, rtol=0, atol=1e-14)
    if score.uses_logits:
        z = logits()
        assert torch.allclose(score.rows(z.mT.contiguous().mT), score.rows(z), rtol=0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ROWS)
def test_symbolic_rows_are_the_rows(name):
    score = SCORES[name]
    symbols = sp.symbols("h0:3", real=True)
    numbers = [1.2, 0.7, -1.1]
    needs_support = "entmax" in name and score.describe().get("alpha") == 1.5
    if name == "entmax 1.3":
        with pytest.raises(InputError, match="closed form"):
            score.symbolic_rows(symbols)
        return
    support = {"support": 2} if needs_support else {}
    rows = score.symbolic_rows(symbols, **support)
    z = torch.tensor([numbers], dtype=torch.float64)
    expected = score.rows(z)[0]
    if support:
        assert (expected > 0).tolist() == [True] * 2 + [False]
    computed = [float(row.subs(dict(zip(symbols, numbers, strict=True)))) for row in map(sp.sympify, rows)]
    assert torch.allclose(torch.tensor(computed, dtype=torch.float64), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ROWS)
def test_symbolic_two_level_rows_are_the_rows(name):
    score = SCORES[name]
    u, v, m = sp.Symbol("u", real=True), sp.Symbol("v", real=True), sp.Symbol("m", integer=True, positive=True)
    if name == "entmax 1.3":
        with pytest.raises(InputError, match="closed form"):
            score.symbolic_two_level(u, v, m)
        return
    raised, other = score.symbolic_two_level(u, v, m)
    for high, low, keys in [(0.6, 0.1, 5), (3.0, -0.5, 4), (0.3, 0.7, 6), (-1.0, -0.2, 3), (0, 0, 2), (-3.0, 1.5, 7)]:
        at = {u: sp.Float(high), v: sp.Float(low), m: keys}
        row = score.rows(torch.tensor([[high] + [low] * (keys - 1)], dtype=torch.float64))[0]
        assert float(raised.subs(at)) == pytest.approx(float(row[0]), abs=1e-12)
        assert float(other.subs(at)) == pytest.approx(float(row[1]), abs=1e-12)


def test_symbolic_attention_weights_are_the_weights():
    q, k = sp.symbols("q0:2", real=True), [sp.symbols(f"k{j}_0:2", real=True) for j in range(3)]
    numbers = {**dict(zip(q, (0.4, 1.1), strict=True))}
    keys = [(0.3, -0.2), (1.0, 0.5), (-0.7, 0.9)]
    for symbols, values in zip(k, keys, strict=True):
        numbers.update(zip(symbols, values, strict=True))
    for name in ("ssa", "cosformer"):
        rows = SCORES[name].symbolic_attention_weights(q, k, position=2)
        query, key = torch.tensor([[0.4, 1.1]], dtype=torch.float64), torch.tensor(keys, dtype=torch.float64)
        expected = SCORES[name].attention_weights(query, key, offset=2)[0]
        computed = [float(row.subs(numbers)) for row in rows]
        assert computed == pytest.approx(expected.tolist(), abs=1e-12)


def test_symbolic_parameters_replace_numbers():
    n, b, u = sp.symbols("n b u", positive=True)
    raised, _ = SCORES["ssa"].symbolic_two_level(u, sp.Integer(0), sp.Integer(5), {"n": n, "b": b})
    assert sp.simplify(raised - (1 + b * u) ** n / ((1 + b * u) ** n + 4)) == 0
    with pytest.raises(InputError, match="fields are n, b"):
        SCORES["ssa"].symbolic_two_level(u, u, u, {"T": n})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("ssa", {"n": 0.9}),
        ("ssa", {"b": 0.0}),
        ("ssa", {"n": float("inf")}),
        ("temperature", {"T": 0.0}),
        ("entmax", {"alpha": 0.5}),
        ("cosformer", {"M": 0}),
        ("softmax", {"T": 2.0}),
        ("mixture", {"shares": (0.5, 0.6)}),
        ("mixture", {"shares": (1.0,)}),
        ("mixture", {"shares": (1.5, -0.5)}),
        ("mixture", {"scores": "softmax,unheard-of"}),
        ("per-head", {"scores": ()}),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(name, given):
    with pytest.raises(InputError) as refused:
        get_score(name, **given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("wrong", [{}, {"n": torch.ones(3, 1, 1)}, {"n": torch.ones(3, 1, 1), "b": torch.ones(3)}])
def test_learned_values_that_do_not_fit_are_refused(wrong):
    with pytest.raises(InputError, match="score ssa"):
        SCORES["ssa"].rows(logits(), None, wrong)


def test_importing_scores_imports_neither_torch_nor_sympy():
    code = "import sys, phasekit.scores; print([m for m in ('torch', 'sympy', 'entmax') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(
    "wrong",
    [
        torch.ones(3, 4, dtype=torch.int64),
        np.ones((3, 4)),
        torch.tensor(1.0),
        torch.ones(3, 4) * 1j,
        [[1.0, 2.0]],
        None,
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_is_no_tensor_of_numbers_is_refused_in_one_line(name, wrong):
    score, right = SCORES[name], torch.ones(3, 4)
    for call in (
        *([lambda: score.rows(wrong), lambda: score.pull_back(right, wrong, right)] if score.uses_logits else []),
        lambda: score.attention_weights(wrong, right),
        lambda: score.attention_weights(right, wrong),
    ):
        with pytest.raises(InputError, match="must be a torch tensor of floating-point numbers"):
            call()


@pytest.mark.parametrize("name", ON_LOGITS)
def test_masks_and_parameters_that_are_no_tensors_are_refused_in_one_line(name):
    score, right = SCORES[name], torch.ones(len(getattr(SCORES[name], "scores", "1")), 3, 4)
    for mask in (np.ones((3, 4), dtype=bool), [[True] * 4] * 3):
        with pytest.raises(InputError, match=r"mask = '(ndarray|list)': must be a torch tensor, or None"):
            score.rows(right, mask)
    for name in score.learnable:
        values = {other: getattr(score, other) for other in score.learnable}
        for wrong in ("x", np.ones(1)):
            with pytest.raises(InputError, match=f"{name} = .*must be a number or a torch tensor"):
                score.rows(right, None, {**values, name: wrong})
        with pytest.raises(InputError, match="must be exactly"):
            score.rows(right, None, list(score.learnable))

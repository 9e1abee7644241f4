"""Empty axes, NaN, and what is no tensor: every score, every path."""

import numpy as np
import pytest
import torch

from phasekit.attention import scored_attention
from phasekit.errors import InputError
from phasekit.scores import ElementwiseSoftmax, get_score, names

PARAMETERS = {"mixture": {"scores": ["softmax", "linear"]}, "per-head": {"scores": ["softmax"]}}
SCORES = {name: get_score(name, **PARAMETERS.get(name, {})) for name in names()}
CALLS = [
    (name, path)
    for name, score in SCORES.items()
    for path in ("explicit", "lean")
    if path == "explicit" or isinstance(score, ElementwiseSoftmax)
]


def attend(name, path, batch=2, heads=1, queries=3, keys=4, dim=8, values=5, **arguments):
    shapes = [(queries, dim), (keys, dim), (keys, values)]
    q, k, v = (torch.ones(batch, heads, *shape).requires_grad_() for shape in shapes)
    output = scored_attention(q, k, v, score=SCORES[name], path=path, **arguments)
    return output, torch.autograd.grad(output.sum(), (q, k, v))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("empty", ["batch", "heads", "queries", "keys", "values"])
@pytest.mark.parametrize(("name", "path"), CALLS)
def test_empty_axes(name, path, empty, masked):
    sizes = {"batch": 2, "heads": 1, "queries": 3, "keys": 4, "values": 5, empty: 0}
    mask = torch.ones(sizes["queries"], sizes["keys"], dtype=torch.bool) if masked else None
    output, gradients = attend(name, path, attn_mask=mask, **sizes)
    assert output.shape == (sizes["batch"], sizes["heads"], sizes["queries"], sizes["values"])
    assert (output == 0).all() or empty == "values"  # without keys there is nothing to see
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize(("name", "path"), CALLS)
def test_no_number_to_compare_is_refused(name, path):
    with pytest.raises(InputError, match="query"):
        attend(name, path, dim=0)


@pytest.mark.parametrize(("name", "path"), CALLS)
def test_nan_in_a_mask_shows(name, path):
    mask = torch.zeros(3, 4)
    mask[1, 2] = torch.nan
    if name in ("linear", "cosformer", "mixture"):  # take masks of 0 and -inf only
        with pytest.raises(InputError, match="mask = 'additive'"):
            attend(name, path, attn_mask=mask)
        return
    output, _ = attend(name, path, attn_mask=mask)
    assert output[:, :, 1].isnan().all()
    assert output[:, :, [0, 2]].isfinite().all()


@pytest.mark.parametrize("argument", ["query", "key", "value", "attn_mask"])
def test_what_is_no_tensor_is_refused(argument):
    x = torch.ones(1, 3, 4)
    with pytest.raises(InputError, match=f"^{argument} = "):
        scored_attention(**{"query": x, "key": x, "value": x, argument: [[1.0]]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": torch.ones(4)}, r"query = \(4,\): must have at least the axes"),
        ({"key": torch.ones(4)}, r"key = \(4,\): must have at least the axes"),
        ({"value": torch.tensor(1.0)}, r"value = \(\): must have at least the axes"),
        ({"offset": 1.5}, "offset = 1.5: must be a whole number"),
        ({"offset": True}, "offset = True: must be a whole number"),
        ({"scale": float("nan")}, "scale = nan: must be a finite number"),
        ({"scale": "1"}, "scale = '1': must be a finite number"),
        ({"dropout_p": None}, "dropout_p = None: must be a finite number"),
        ({"dropout_p": 1.0}, "dropout_p = 1.0: must be at least 0 and below 1"),
    ],
)
@pytest.mark.parametrize("score", ["ssa", "cosformer"])
def test_what_is_no_argument_is_refused(score, arguments, message):
    x = torch.ones(1, 3, 4)
    with pytest.raises(InputError, match=message):
        scored_attention(**{"query": x, "key": x, "value": x, **arguments}, score=score)
    scored_attention(x, x, x, offset=np.int64(1), scale=np.float32(0.5), score=score)  # NumPy's numbers are numbers

"""What a picture shows, read from its artists."""

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba


def line(axes, colour, style="-"):
    """Return the points of all lines of a colour and style."""
    found = [
        np.column_stack(each.get_data())
        for each in axes.lines
        if to_rgba(each.get_color()) == to_rgba(colour) and each.get_linestyle() == style and len(each.get_xdata()) > 2
    ]
    return np.concatenate(found)


def circles(axes, alpha=None):
    """Return the points of the networks that were kept or, with an alpha, of those filtered out."""
    markers = [container[0] for container in axes.containers if container[0].get_alpha() == alpha]
    return np.concatenate([np.column_stack(marker.get_data()) for marker in markers])


def verticals(axes):
    """Return where vertical lines stand."""
    pairs = [each.get_xdata() for each in axes.lines if len(each.get_xdata()) == 2]
    return [left for left, right in pairs if left == right]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def title(axes):
    return axes.get_title(loc="left")


def numbers(files, name):
    """Return the table behind a picture."""
    (path,) = (path for path in files if path.name == f"{name}.csv")
    return pd.read_csv(path)

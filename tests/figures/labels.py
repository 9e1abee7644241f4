"""What every picture must have, of whichever chapter it is."""


def assert_labelled(result, width):
    """Check that pictures are as wide as they should be, have numbers behind them, and say what their axes are."""
    assert result.figures
    for stem, figure in result.figures.items():
        assert len(result.numbers(stem)) > 0
        assert figure.get_figwidth() == width
        # Panels above each other share their horizontal axis, panels beside each other their vertical one, and those
        # inside a grid both.
        words = [
            (a.get_xlabel(), a.get_ylabel(), a.get_title(loc="left"), a.get_title(loc="right"))
            for a in figure.axes
            if _at_the_edge(a)
        ]
        assert all(any(each) for each in words)
        assert any(x for x, *_ in words)
        assert any(y for _, y, *_ in words)


def _at_the_edge(axes):
    place = axes.get_subplotspec()
    return place is None or place.is_first_row() or place.is_last_row() or place.is_first_col()

"""How pictures look, and how they are saved beside the numbers behind them."""

"""How order parameters, loss and coverage change with P."""

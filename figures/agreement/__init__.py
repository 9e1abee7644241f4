"""Theory beside networks, over P, V and L."""

"""Functions of neural networks, by family; ``tensocket.nn.functional`` has all of them."""

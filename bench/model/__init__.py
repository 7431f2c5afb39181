"""The user's program: builds the model and its inputs, copies them, calls and describes them."""

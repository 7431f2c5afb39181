"""Architectures of published libraries, with random weights and sizes of the user's choice.

Each file has `build(name, **sizes)`, which works as those of other models (see `models`); `name` is
the architecture. Nothing is downloaded: a name that a library would look up in a hub is refused. A
library is imported only when one of its models is built.
"""

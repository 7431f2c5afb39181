"""Architectures of published libraries, with random weights and sizes of the user's choice.

Each file's `build(name, **sizes)` is as that of the other models (see `models`), and gets the
architecture's name as well. Nothing is downloaded: a name that a library would look up in a hub is
refused. A library is imported only when one of its models is built.
"""

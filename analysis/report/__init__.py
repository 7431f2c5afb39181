"""The report of a study: the contents of its parts, and the templates that show them."""

"""Cases and results: frozen records, their columns, and the files that hold them."""

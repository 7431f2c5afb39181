"""Text for readers: numbers with units, tables, pages from templates."""

"""How values are shown: numbers, names, table cells, columns, tables, colours."""

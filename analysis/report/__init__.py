"""The report: its parts, their texts and the templates."""

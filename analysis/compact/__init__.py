"""Joins the files of a study's runs to parts, which are read a hundred times as fast."""

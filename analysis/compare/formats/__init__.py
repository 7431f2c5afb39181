"""A comparison as text, Markdown, JSON, JUnit XML, annotations of GitHub and a page."""

"""What `import modescope` offers to Python code."""

"""Tests the harness on this machine with quantities whose true values are known."""

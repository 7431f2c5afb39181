"""Checks the accuracy of modescope's timing on this machine, with known true values."""

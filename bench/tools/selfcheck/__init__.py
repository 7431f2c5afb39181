"""Checks the accuracy of modescope's timing on this machine against known true values."""

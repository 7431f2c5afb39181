"""The least time that a call could take: counts its work, measures the device's highest rates."""

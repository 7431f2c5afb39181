"""The least time that the work could take: counted work against measured ceilings of the device."""

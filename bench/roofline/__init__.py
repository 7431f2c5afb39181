"""How fast could the work be at best? Counted work against ceilings measured on the device."""

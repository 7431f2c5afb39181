"""Drawing functions shared by several figures."""
